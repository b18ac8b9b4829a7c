// CUDA's runtime in the emulator: kernels, their attributes and launches.
#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "gpu/device/driver_api.hpp"
#include "lab/programs/stand_in/calls.hpp"
#include "lab/programs/stand_in/launch_attributes.hpp"

namespace fovea::programs {
namespace {

struct RuntimeLaunchConfig {  // cudaLaunchConfig_t
  Dim3 grid;
  Dim3 block;
  std::size_t dynamic_shared_bytes;
  void* stream;
  const gpu::driver::LaunchAttribute* attributes;
  unsigned attribute_count;
};

// What stands between <<< and >>>, until the stub of the kernel takes it.
struct CallConfiguration {
  Dim3 grid;
  Dim3 block;
  std::size_t shared_bytes = 0;
  void* stream = nullptr;
};

std::vector<CallConfiguration>& call_configurations() {
  thread_local std::vector<CallConfiguration> configurations;
  return configurations;
}

emu::LaunchConfig config_of(Dim3 grid, Dim3 block, std::size_t shared_bytes) {
  return {.grid = {grid.x, grid.y, grid.z},
          .block = {block.x, block.y, block.z},
          .dynamic_shared_bytes = shared_bytes};
}

int launch(const char* function, const void* handle, const emu::LaunchConfig& config,
           void** arguments, const void* stream, bool is_cooperative = false) {
  return runtime_call(function, [&](Gpu& gpu) {
    gpu.launch({.function = &gpu.function(handle),
                .config = config,
                .arguments = arguments,
                .is_cooperative = is_cooperative,
                .stream = stream});
  });
}

void** handle_of(Module& module) {
  return reinterpret_cast<void**>(&module);
}

Module& module_of(void** handle) {
  return *reinterpret_cast<Module*>(handle);
}

}  // namespace

// Registration of what nvcc has put into the program, before main().

extern "C" [[gnu::visibility("default")]] void** __cudaRegisterFatBinary(void* description) {
  Gpu& gpu = Gpu::instance();
  const std::scoped_lock lock(gpu.mutex());
  return handle_of(gpu.add_module(description));
}
FOVEA_ENTRY __cudaRegisterFatBinaryEnd(void** /*module*/) {
  return kSuccess;
}
FOVEA_ENTRY __cudaUnregisterFatBinary(void** /*module*/) {
  return driver_call(__func__, [](Gpu& gpu) { gpu.synchronize(); });
}
FOVEA_ENTRY __cudaInitModule(void** /*module*/) {
  return 1;
}
FOVEA_ENTRY __cudaRegisterFunction(void** module, const void* stub, char* /*host_name*/,
                                   const char* name, ...) {
  return driver_call(__func__, [&](Gpu& gpu) {
    gpu.register_stub(stub, gpu.add_function(module_of(module), name));
  });
}
FOVEA_ENTRY __cudaRegisterVar(void** module, void* shadow, char* /*host_name*/, const char* name,
                              ...) {
  return driver_call(__func__, [&](Gpu& gpu) {
    gpu.register_variable(shadow, {.module = &module_of(module), .name = name});
  });
}
FOVEA_ENTRY __cudaRegisterManagedVar(void** /*module*/, void** /*shadow*/, char* /*host_name*/,
                                     const char* name, ...) {
  return driver_call(__func__, [&](Gpu&) {
    throw CallError{kNotSupported, fmt::format("{}: __managed__ variables are not supported; use "
                                               "cudaMallocManaged, or a __device__ variable",
                                               name)};
  });
}

// Launches.

FOVEA_ENTRY __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                                        void* stream) {
  call_configurations().push_back({grid, block, shared_bytes, stream});
  return kSuccess;
}
FOVEA_ENTRY __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes,
                                       void** stream) {
  if (call_configurations().empty()) {
    return kMissingConfiguration;
  }
  const CallConfiguration configuration = call_configurations().back();
  call_configurations().pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *stream = configuration.stream;
  return kSuccess;
}
FOVEA_ENTRY cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                             std::size_t shared_bytes, void* stream) {
  return launch(__func__, function, config_of(grid, block, shared_bytes), arguments, stream);
}
FOVEA_ENTRY __cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                               std::size_t shared_bytes, void* stream) {
  return launch("kernel launch", function, config_of(grid, block, shared_bytes), arguments, stream);
}
FOVEA_ENTRY cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block,
                                        void** arguments, std::size_t shared_bytes, void* stream) {
  return launch(__func__, function, config_of(grid, block, shared_bytes), arguments, stream, true);
}
FOVEA_ENTRY cudaLaunchKernelExC(const RuntimeLaunchConfig* config, const void* function,
                                void** arguments) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    LaunchRequest request{
        .function = &gpu.function(function),
        .config = config_of(config->grid, config->block, config->dynamic_shared_bytes),
        .arguments = arguments,
        .stream = config->stream};
    apply_attributes(request, {config->attributes, config->attribute_count});
    gpu.launch(request);
  });
}

// Kernels.

FOVEA_ENTRY cudaGetFuncBySymbol(void** to, const void* stub) {
  return runtime_call(__func__, [&](Gpu& gpu) { store(to, &gpu.function(stub)); });
}
FOVEA_ENTRY cudaFuncGetName(const char** to, const void* function) {
  return runtime_call(__func__, [&](Gpu& gpu) { store(to, gpu.function(function).name.c_str()); });
}
FOVEA_ENTRY cudaFuncGetAttributes(FunctionAttributes* to, const void* function) {
  return runtime_call(
      __func__, [&](Gpu& gpu) { store(to, function_attributes(gpu, gpu.function(function))); });
}
FOVEA_ENTRY cudaFuncSetAttribute(const void* function, int attribute, int value) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    set_function_attribute(gpu, gpu.function(function), attribute, value);
  });
}
FOVEA_ENTRY cudaFuncSetCacheConfig(const void* /*function*/, int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaFuncSetSharedMemConfig(const void* /*function*/, int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, std::size_t shared_bytes) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    store(blocks, blocks_per_sm(gpu, gpu.function(function), threads, shared_bytes));
  });
}
FOVEA_ENTRY cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, std::size_t shared_bytes, unsigned /*flags*/) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}
FOVEA_ENTRY cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function,
                                                      int blocks, int /*threads*/) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    const std::size_t used =
        GpuLimits::kReservedSharedBytes + gpu.info(gpu.function(function)).static_shared_bytes;
    const std::size_t share = GpuLimits::kSharedBytesPerSm / std::max(blocks, 1);
    store(bytes, share - std::min(share, used));
  });
}
FOVEA_ENTRY cudaOccupancyMaxPotentialClusterSize(int* size, const void* /*function*/,
                                                 const RuntimeLaunchConfig* /*config*/) {
  return runtime_call(__func__, [&](Gpu&) { store(size, GpuLimits::kMaxCluster); });
}
FOVEA_ENTRY cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const RuntimeLaunchConfig* config) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    LaunchRequest request{};
    apply_attributes(request, {config->attributes, config->attribute_count});
    const auto& cluster = request.config.cluster;
    const unsigned threads = config->block.x * config->block.y * config->block.z;
    const int blocks =
        GpuLimits::kSms * blocks_per_sm(gpu, gpu.function(function), static_cast<int>(threads),
                                        config->dynamic_shared_bytes);
    store(clusters, static_cast<unsigned>(blocks) / (cluster[0] * cluster[1] * cluster[2]));
  });
}

// Libraries: modules that the program loads itself.

FOVEA_ENTRY cudaLibraryLoadData(void** to, const void* image, ...) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    Module& module = gpu.add_module(image);
    module.load(gpu);
    store(to, &module);
  });
}
FOVEA_ENTRY cudaLibraryUnload(void* /*library*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaLibraryGetKernel(void** to, Module* library, const char* name) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    static_cast<void>(library->kernel(gpu, name));
    store(to, &gpu.add_function(*library, name));
  });
}
FOVEA_ENTRY cudaLibraryGetGlobal(void** to, std::size_t* bytes, Module* library, const char* name) {
  return runtime_call(__func__, [&](Gpu& gpu) {
    const emu::VariableHandle& variable = library->variable(gpu, name);
    store(to, pointer_to(variable.address));
    if (bytes != nullptr) {
      *bytes = variable.bytes;
    }
  });
}

FOVEA_ALIAS(cudaGetFuncBySymbol, cudaGetKernel)
FOVEA_ALIAS(cudaGetFuncBySymbol, __cudaGetKernel)
FOVEA_ALIAS(cudaLaunchKernel, cudaLaunchKernel_ptsz)
FOVEA_ALIAS(__cudaLaunchKernel, __cudaLaunchKernel_ptsz)
FOVEA_ALIAS(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz)
FOVEA_ALIAS(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz)

}  // namespace fovea::programs
