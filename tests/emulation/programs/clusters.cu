// Launches with attributes: clusters, a cooperative grid, programmatic dependent launch, and copies
// by a tensor map, whose encoder is found through the runtime.
#include <cstdint>
#include <cstdio>

#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void rank(unsigned* to) {
  unsigned number;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(number));
  to[blockIdx.x] = number;
}

__global__ void first(int* to) {
  cudaTriggerProgrammaticLaunchCompletion();
  to[threadIdx.x] = static_cast<int>(threadIdx.x);
}

__global__ void second(const int* from, int* to) {
#ifndef FORGOTTEN
  cudaGridDependencySynchronize();
#endif
  to[threadIdx.x] = from[threadIdx.x] + 1;
}

__global__ void load_box(const __grid_constant__ CUtensorMap map, float* to) {
  __shared__ alignas(128) float box[8 * 8];
  __shared__ alignas(8) std::uint64_t done;
  const auto barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&done));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(barrier));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3}], [%4];" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(box))),
        "l"(&map), "r"(4), "r"(2), "r"(barrier)
        : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra "
      "again;\n}" ::"r"(barrier)
      : "memory");
  to[threadIdx.x] = box[threadIdx.x];
}

int main() {
  int* numbers;
  int* others;
  cudaMallocManaged(&numbers, 64 * 4);
  cudaMallocManaged(&others, 64 * 4);
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(4);
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  std::printf("%d\n", cudaLaunchKernelEx(&config, rank, reinterpret_cast<unsigned*>(numbers)));
  cudaDeviceSynchronize();
  std::printf("%d %d %d %d\n", numbers[0], numbers[1], numbers[2], numbers[3]);

  first<<<1, 64>>>(numbers);
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  const int* from = numbers;
  std::printf("%d\n", cudaLaunchKernelEx(&config, second, from, others));
  cudaDeviceSynchronize();
  std::printf("%d\n", others[63]);

  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault,
                                   &found);
  float* matrix;
  float* box;
  cudaMallocManaged(&matrix, 16 * 16 * 4);
  cudaMallocManaged(&box, 64 * 4);
  for (int i = 0; i < 256; ++i) {
    matrix[i] = static_cast<float>(i);
  }
  CUtensorMap map;
  const cuuint64_t dims[] = {16, 16};
  const cuuint64_t strides[] = {64};
  const cuuint32_t sizes[] = {8, 8};
  const cuuint32_t steps[] = {1, 1};
  const auto call = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode);
  const auto make = [&](void* address) {
    return call(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, address, dims, strides, sizes, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  std::printf("%d %d %d\n", found, make(reinterpret_cast<char*>(matrix) + 4), make(matrix));
  load_box<<<1, 64>>>(map, box);
  const cudaError_t result = cudaDeviceSynchronize();
  std::printf("%d %.0f %.0f\n", result, box[0], box[63]);
  return 0;
}
