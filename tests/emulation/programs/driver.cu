// A program on the driver's interface, which loads a module whose name it is given: PTX, a fat
// binary or a cubin.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include <cuda.h>

int main(int, char** argv) {
  std::ifstream file(argv[1], std::ios::binary);
  std::vector<char> image{std::istreambuf_iterator<char>(file), {}};
  image.push_back('\0');
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  cuInit(0);
  cuDeviceGet(&device, 0);
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
  if (const CUresult result = cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr)) {
    const char* name = "";
    cuGetErrorName(result, &name);
    std::printf("%s\n", name);
    return 3;
  }
  std::printf("%d\n", cuModuleGetFunction(&function, module, "absent"));
  std::printf("%d\n", cuModuleGetFunction(&function, module, "scale"));
  CUdeviceptr memory, factor;
  std::size_t bytes = 0;
  cuModuleGetGlobal(&factor, &bytes, module, "factor");
  const float three = 3;
  cuMemcpyHtoD(factor, &three, bytes);
  cuMemAlloc(&memory, 64 * 4);
  cuMemsetD32(memory, 0x3F800000, 64);
  int count = 64;
  void* arguments[] = {&memory, &count};
  cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr);
  float result[64];
  std::printf("%d\n", cuMemcpyDtoH(result, memory, sizeof(result)));
  std::printf("%.0f %.0f\n", result[0], result[63]);
  struct {
    CUdeviceptr memory;
    int count;
  } packed{memory, 1};
  std::size_t size = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra);
  cuMemcpyDtoH(result, memory, sizeof(result));
  std::printf("%.0f %.0f\n", result[0], result[63]);
  return 0;
}
