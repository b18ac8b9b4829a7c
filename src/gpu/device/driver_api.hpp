// Declarations for the CUDA driver API as far as Fovea uses it, bound at run time.
//
// Names, values and layouts follow NVIDIA's cuda.h (CUDA 13.0), so that a program built without
// CUDA starts anywhere; tests/gpu/driver_api_test.cpp compares them with cuda.h where it is at
// hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fovea::gpu::driver {

using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kNoDevice = 100;
constexpr Result kSystemDriverMismatch = 803;
constexpr Result kNoBinaryForGpu = 209;
constexpr Result kJitCompilerNotFound = 221;
constexpr Result kNotReady = 600;

/// The minimum CUDA version of the driver: that of the compiler that built the kernels.
constexpr int kMinVersion = 13000;
constexpr const char* kMinVersionText = "13.0 or later";

using DeviceId = int;
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using StreamHandle = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using GraphHandle = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;
using Address = std::uint64_t;

enum class DeviceAttribute : int {
  kClockRate = 13,
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,
};

enum class FunctionAttribute : int {
  kSharedBytes = 1,
  kMaxDynamicSharedBytes = 8,
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventBlockingSync = 1;  // waiting threads sleep
constexpr int kCaptureModeGlobal = 0;
constexpr int kCaptureModeRelaxed = 2;

// Names in the list of a launch's extra arguments: all parameters in one buffer.
inline void* const kLaunchParameterBuffer = reinterpret_cast<void*>(1);  // NOLINT
inline void* const kLaunchParameterBytes = reinterpret_cast<void*>(2);   // NOLINT

constexpr int kLaunchAttributeClusterDimension = 4;
constexpr int kLaunchAttributeProgrammaticStreamSerialization = 6;

struct alignas(8) LaunchAttribute {
  int id = 0;
  int reserved = 0;
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int flag;
  } value{};
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

/// What `api()` binds: FOVEA_DRIVER(member, exported name, parameters).
#define FOVEA_DRIVER_FUNCTIONS(FOVEA_DRIVER)                                                    \
  FOVEA_DRIVER(init, cuInit, (unsigned))                                                        \
  FOVEA_DRIVER(driver_version, cuDriverGetVersion, (int*))                                      \
  FOVEA_DRIVER(error_name, cuGetErrorName, (Result, const char**))                              \
  FOVEA_DRIVER(error_string, cuGetErrorString, (Result, const char**))                          \
  FOVEA_DRIVER(device_count, cuDeviceGetCount, (int*))                                          \
  FOVEA_DRIVER(device_get, cuDeviceGet, (DeviceId*, int))                                       \
  FOVEA_DRIVER(device_name, cuDeviceGetName, (char*, int, DeviceId))                            \
  FOVEA_DRIVER(device_pci_bus_id, cuDeviceGetPCIBusId, (char*, int, DeviceId))                  \
  FOVEA_DRIVER(device_attribute, cuDeviceGetAttribute, (int*, DeviceAttribute, DeviceId))       \
  FOVEA_DRIVER(device_memory, cuDeviceTotalMem_v2, (std::size_t*, DeviceId))                    \
  FOVEA_DRIVER(context_retain, cuDevicePrimaryCtxRetain, (Context*, DeviceId))                  \
  FOVEA_DRIVER(context_release, cuDevicePrimaryCtxRelease_v2, (DeviceId))                       \
  FOVEA_DRIVER(context_get, cuCtxGetCurrent, (Context*))                                        \
  FOVEA_DRIVER(context_set, cuCtxSetCurrent, (Context))                                         \
  FOVEA_DRIVER(context_synchronize, cuCtxSynchronize, ())                                       \
  FOVEA_DRIVER(memory_info, cuMemGetInfo_v2, (std::size_t*, std::size_t*))                      \
  FOVEA_DRIVER(memory_allocate, cuMemAlloc_v2, (Address*, std::size_t))                         \
  FOVEA_DRIVER(memory_free, cuMemFree_v2, (Address))                                            \
  FOVEA_DRIVER(host_allocate, cuMemHostAlloc, (void**, std::size_t, unsigned))                  \
  FOVEA_DRIVER(host_free, cuMemFreeHost, (void*))                                               \
  FOVEA_DRIVER(copy_to_device, cuMemcpyHtoDAsync_v2,                                            \
               (Address, const void*, std::size_t, StreamHandle))                               \
  FOVEA_DRIVER(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, Address, std::size_t, StreamHandle)) \
  FOVEA_DRIVER(copy_on_device, cuMemcpyDtoDAsync_v2,                                            \
               (Address, Address, std::size_t, StreamHandle))                                   \
  FOVEA_DRIVER(fill, cuMemsetD8Async, (Address, unsigned char, std::size_t, StreamHandle))      \
  FOVEA_DRIVER(stream_create, cuStreamCreate, (StreamHandle*, unsigned))                        \
  FOVEA_DRIVER(stream_destroy, cuStreamDestroy_v2, (StreamHandle))                              \
  FOVEA_DRIVER(stream_synchronize, cuStreamSynchronize, (StreamHandle))                         \
  FOVEA_DRIVER(stream_wait, cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned))           \
  FOVEA_DRIVER(capture_begin, cuStreamBeginCapture_v2, (StreamHandle, int))                     \
  FOVEA_DRIVER(capture_end, cuStreamEndCapture, (StreamHandle, GraphHandle*))                   \
  FOVEA_DRIVER(capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                         \
  FOVEA_DRIVER(graph_instantiate, cuGraphInstantiateWithFlags,                                  \
               (GraphExec*, GraphHandle, unsigned long long))                                   \
  FOVEA_DRIVER(graph_launch, cuGraphLaunch, (GraphExec, StreamHandle))                          \
  FOVEA_DRIVER(graph_destroy, cuGraphDestroy, (GraphHandle))                                    \
  FOVEA_DRIVER(graph_exec_destroy, cuGraphExecDestroy, (GraphExec))                             \
  FOVEA_DRIVER(event_create, cuEventCreate, (EventHandle*, unsigned))                           \
  FOVEA_DRIVER(event_destroy, cuEventDestroy_v2, (EventHandle))                                 \
  FOVEA_DRIVER(event_record, cuEventRecord, (EventHandle, StreamHandle))                        \
  FOVEA_DRIVER(event_query, cuEventQuery, (EventHandle))                                        \
  FOVEA_DRIVER(event_synchronize, cuEventSynchronize, (EventHandle))                            \
  FOVEA_DRIVER(event_elapsed, cuEventElapsedTime, (float*, EventHandle, EventHandle))           \
  FOVEA_DRIVER(module_load, cuModuleLoadDataEx, (Module*, const void*, unsigned, int*, void**)) \
  FOVEA_DRIVER(module_unload, cuModuleUnload, (Module))                                         \
  FOVEA_DRIVER(module_function, cuModuleGetFunction, (Function*, Module, const char*))          \
  FOVEA_DRIVER(function_get, cuFuncGetAttribute, (int*, FunctionAttribute, Function))           \
  FOVEA_DRIVER(function_set, cuFuncSetAttribute, (Function, FunctionAttribute, int))            \
  FOVEA_DRIVER(launch, cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))       \
  FOVEA_DRIVER(tensor_map_encode, cuTensorMapEncodeTiled,                                       \
               (void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,   \
                const std::uint32_t*, const std::uint32_t*, int, int, int, int))

/// The bound functions, members named as above.
struct Api {
// NOLINTBEGIN(bugprone-macro-parentheses): names and parameter lists take none
#define FOVEA_DRIVER(member, name, parameters) Result(*member) parameters = nullptr;
  FOVEA_DRIVER_FUNCTIONS(FOVEA_DRIVER)
#undef FOVEA_DRIVER
  // NOLINTEND(bugprone-macro-parentheses)
};

/// Opens libcuda on first use. Throws fovea::Error that says what is missing: the library, or a
/// function in it (then the driver is too old).
[[nodiscard]] const Api& api();

/// Throws fovea::Error "<what>: CUDA_ERROR_... (...)", OutOfMemory for lack of memory.
void check(Result result, const std::string& what);

}  // namespace fovea::gpu::driver
