// CUDA's driver in the emulator: modules, libraries, kernels and launches.
#include <algorithm>
#include <array>
#include <deque>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "gpu/device/driver_api.hpp"
#include "lab/programs/stand_in/calls.hpp"
#include "lab/programs/stand_in/launch_attributes.hpp"

namespace fovea::programs {
namespace {

void load_into(Gpu& gpu, Module** to, const void* image) {
  if (image == nullptr) {
    throw CallError{kInvalidValue, "the module is null"};
  }
  Module& module = gpu.add_module(image);
  module.load(gpu);
  store(to, &module);
}

int load_module(const char* function, Module** to, const void* image) {
  return driver_call(function, [&](Gpu& gpu) { load_into(gpu, to, image); });
}

int get_function(const char* function, Function** to, Module* module, const char* name) {
  return driver_call(function, [&](Gpu& gpu) {
    static_cast<void>(module->kernel(gpu, name));
    store(to, &gpu.add_function(*module, name));
  });
}

int get_global(const char* function, std::uint64_t* to, std::size_t* bytes, Module* module,
               const char* name) {
  return driver_call(function, [&](Gpu& gpu) {
    const emu::VariableHandle& variable = module->variable(gpu, name);
    if (to != nullptr) {
      *to = variable.address;
    }
    if (bytes != nullptr) {
      *bytes = variable.bytes;
    }
  });
}

int get_attribute(const char* function, int* to, int attribute, Function* kernel) {
  return driver_call(function, [&](Gpu& gpu) {
    const FunctionAttributes all = function_attributes(gpu, *kernel);
    switch (attribute) {
      case kMaxThreadsAttribute:
        return store(to, all.max_threads);
      case kSharedBytesAttribute:
        return store(to, all.shared_bytes);
      case kConstantBytesAttribute:
        return store(to, all.constant_bytes);
      case kLocalBytesAttribute:
        return store(to, all.local_bytes);
      case kRegistersAttribute:
        return store(to, all.registers);
      case kPtxVersionAttribute:
        return store(to, all.ptx_version);
      case kBinaryVersionAttribute:
        return store(to, all.binary_version);
      case kMaxDynamicSharedBytesAttribute:
        return store(to, all.max_dynamic_shared_bytes);
      default:
        return store(to, 0);
    }
  });
}

int set_attribute(const char* function, Function* kernel, int attribute, int value) {
  return driver_call(function,
                     [&](Gpu& gpu) { set_function_attribute(gpu, *kernel, attribute, value); });
}

// Takes the buffer of all arguments, which a list of names and values describes.
void take_extra(LaunchRequest& request, void** extra) {
  constexpr std::uint64_t kBuffer = 1;
  constexpr std::uint64_t kBufferBytes = 2;
  const std::byte* buffer = nullptr;
  for (; extra != nullptr && *extra != nullptr; extra += 2) {
    if (number_of(extra[0]) == kBuffer) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (number_of(extra[0]) == kBufferBytes && buffer != nullptr) {
      request.buffer = {buffer, *static_cast<const std::size_t*>(extra[1])};
    }
  }
}

int launch(const char* function, LaunchRequest request, Function* kernel, void** extra) {
  return driver_call(function, [&](Gpu& gpu) {
    request.function = &gpu.function(kernel);
    take_extra(request, extra);
    gpu.launch(request);
  });
}

}  // namespace

FOVEA_ENTRY cuModuleLoadData(Module** to, const void* image) {
  return load_module(__func__, to, image);
}
FOVEA_ENTRY cuModuleLoadDataEx(Module** to, const void* image, ...) {
  return load_module(__func__, to, image);
}
FOVEA_ENTRY cuModuleLoadFatBinary(Module** to, const void* image) {
  return load_module(__func__, to, image);
}
FOVEA_ENTRY cuModuleLoad(Module** to, const char* file) {
  return driver_call(__func__, [&](Gpu& gpu) {
    static std::deque<std::string> texts;  // modules keep the address of their image
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      throw CallError{kFileNotFound, fmt::format("cannot read {}", file)};
    }
    texts.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    load_into(gpu, to, texts.back().c_str());
  });
}
FOVEA_ENTRY cuModuleUnload(Module* /*module*/) {
  return driver_call(__func__, [](Gpu& gpu) { gpu.synchronize(); });
}
FOVEA_ENTRY cuModuleGetFunction(Function** to, Module* module, const char* name) {
  return get_function(__func__, to, module, name);
}
FOVEA_ENTRY cuModuleGetGlobal_v2(std::uint64_t* to, std::size_t* bytes, Module* module,
                                 const char* name) {
  return get_global(__func__, to, bytes, module, name);
}
FOVEA_ENTRY cuModuleGetLoadingMode(int* to) {
  return driver_call(__func__, [&](Gpu&) { store(to, 2); });  // lazy
}
FOVEA_ENTRY cuLibraryLoadData(Module** to, const void* image, ...) {
  return load_module(__func__, to, image);
}
FOVEA_ENTRY cuLibraryUnload(Module* /*library*/) {
  return kSuccess;
}
FOVEA_ENTRY cuLibraryGetModule(Module** to, Module* library) {
  return driver_call(__func__, [&](Gpu&) { store(to, library); });
}
FOVEA_ENTRY cuLibraryGetKernel(Function** to, Module* library, const char* name) {
  return get_function(__func__, to, library, name);
}
FOVEA_ENTRY cuLibraryGetGlobal(std::uint64_t* to, std::size_t* bytes, Module* library,
                               const char* name) {
  return get_global(__func__, to, bytes, library, name);
}
FOVEA_ENTRY cuKernelGetFunction(Function** to, Function* kernel) {
  return driver_call(__func__, [&](Gpu&) { store(to, kernel); });
}
FOVEA_ENTRY cuFuncGetModule(Module** to, const Function* function) {
  return driver_call(__func__, [&](Gpu&) { store(to, function->module); });
}
FOVEA_ENTRY cuFuncGetName(const char** to, const Function* function) {
  return driver_call(__func__, [&](Gpu&) { store(to, function->name.c_str()); });
}
FOVEA_ENTRY cuFuncLoad(const Function* /*function*/) {
  return kSuccess;
}
FOVEA_ENTRY cuFuncGetAttribute(int* to, int attribute, Function* function) {
  return get_attribute(__func__, to, attribute, function);
}
FOVEA_ENTRY cuFuncSetAttribute(Function* function, int attribute, int value) {
  return set_attribute(__func__, function, attribute, value);
}
FOVEA_ENTRY cuKernelGetAttribute(int* to, int attribute, Function* kernel, int /*device*/) {
  return get_attribute(__func__, to, attribute, kernel);
}
FOVEA_ENTRY cuKernelSetAttribute(int attribute, int value, Function* kernel, int /*device*/) {
  return set_attribute(__func__, kernel, attribute, value);
}
FOVEA_ENTRY cuFuncSetCacheConfig(const Function* /*function*/, int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cuFuncSetSharedMemConfig(const Function* /*function*/, int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function,
                                                        int threads, std::size_t shared_bytes) {
  return driver_call(__func__, [&](Gpu& gpu) {
    store(blocks, blocks_per_sm(gpu, *function, threads, shared_bytes));
  });
}
FOVEA_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function* function,
                                                                 int threads,
                                                                 std::size_t shared_bytes,
                                                                 unsigned /*flags*/) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}

FOVEA_ENTRY cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, void* stream, void** arguments, void** extra) {
  return launch(__func__,
                {.config = {.grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .dynamic_shared_bytes = shared_bytes},
                 .arguments = arguments,
                 .stream = stream},
                function, extra);
}
FOVEA_ENTRY cuLaunchCooperativeKernel(Function* function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y,
                                      unsigned block_z, unsigned shared_bytes, void* stream,
                                      void** arguments) {
  return launch(__func__,
                {.config = {.grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .dynamic_shared_bytes = shared_bytes},
                 .arguments = arguments,
                 .is_cooperative = true,
                 .stream = stream},
                function, nullptr);
}
FOVEA_ENTRY cuLaunchKernelEx(const gpu::driver::LaunchConfig* config, Function* function,
                             void** arguments, void** extra) {
  LaunchRequest request{.config = {.grid = {config->grid_x, config->grid_y, config->grid_z},
                                   .block = {config->block_x, config->block_y, config->block_z},
                                   .dynamic_shared_bytes = config->shared_bytes},
                        .arguments = arguments,
                        .stream = config->stream};
  const int code = driver_call(__func__, [&](Gpu&) {
    apply_attributes(request, {config->attributes, config->attribute_count});
  });
  return code != kSuccess ? code : launch(__func__, request, function, extra);
}

FOVEA_ALIAS(cuLaunchKernel, cuLaunchKernel_ptsz)
FOVEA_ALIAS(cuLaunchKernelEx, cuLaunchKernelEx_ptsz)
FOVEA_ALIAS(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz)
FOVEA_ALIAS(cuFuncGetName, cuKernelGetName)

}  // namespace fovea::programs
