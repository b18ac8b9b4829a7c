// A stand-in for libcuda.so.1 with two GPUs that compute nothing: it hands out objects, knows the
// context of each, and refuses what is done to them in another one.
#include "driver/fake_driver.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device/driver_api.hpp"

namespace fovea::gpu::driver {
// The driver's contexts are its own business; these only have to differ.
struct ContextOpaque {
  int gpu = 0;
};
}  // namespace fovea::gpu::driver

namespace {

using namespace fovea::gpu::driver;

constexpr Result kInvalidValue = 1;
constexpr Result kInvalidContext = 201;
constexpr Result kNotSupported = 801;
constexpr Result kCaptureUnsupported = 900;

std::array<ContextOpaque, 2> contexts = {ContextOpaque{0}, ContextOpaque{1}};
thread_local Context current = nullptr;
std::mutex mutex;
std::map<const void*, Context> objects;
/// What a Function points to: an entry point, of a module.
struct EntryPoint {
  const void* module = nullptr;
  std::string name;
};
std::map<std::pair<const void*, std::string>, EntryPoint> entry_points;
std::map<const void*, bool> modules_of_ptx;
std::vector<FakeLaunch> launches;
std::atomic<int> astray = 0;
std::atomic<int> version = 13000;
std::atomic<int> capability = 90;
std::atomic<bool> capturing = false;
std::atomic<int> spoilt = 0;
thread_local int capture_mode = kCaptureModeGlobal;

/// What a capture of another stream makes of a call that it cannot know the effects of.
bool spoils() {
  if (capturing && capture_mode != kCaptureModeRelaxed) {
    ++spoilt;
    return true;
  }
  return false;
}
std::atomic<int> load_result = kSuccess;

/// Something of the current context, `bytes` large, all zeros.
template <typename T>
Result make(T* to, std::size_t bytes = 1) {
  if (current == nullptr) {
    ++astray;
    return kInvalidContext;
  }
  void* const object = std::calloc(bytes, 1);
  const std::lock_guard lock(mutex);
  objects.emplace(object, current);
  std::memcpy(to, &object, sizeof(object));
  static_assert(sizeof(*to) == sizeof(object));
  return kSuccess;
}

Result destroy(void* object) {
  const std::lock_guard lock(mutex);
  const auto found = objects.find(object);
  if (found == objects.end() || found->second != current) {
    ++astray;
    return kInvalidContext;
  }
  objects.erase(found);
  std::free(object);
  return kSuccess;
}

}  // namespace

void fake_driver_set_version(int wanted) {
  version = wanted;
}
void fake_driver_set_capability(int wanted) {
  capability = wanted;
}
void fake_driver_set_load_result(int wanted) {
  load_result = wanted;
}
void* fake_driver_context(int index) {
  return &contexts[static_cast<std::size_t>(index)];
}
int fake_driver_alive() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(objects.size());
}
int fake_driver_astray() {
  return astray;
}
void fake_driver_set_capturing(bool wanted) {
  capturing = wanted;
}
int fake_driver_spoilt() {
  return spoilt;
}
int fake_driver_capture_mode() {
  return capture_mode;
}
int fake_driver_launches() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(launches.size());
}
FakeLaunch fake_driver_launch(int number) {
  const std::lock_guard lock(mutex);
  return launches.at(static_cast<std::size_t>(number));
}

// NOLINTBEGIN(readability-identifier-naming): the driver's names
extern "C" {

Result cuInit(unsigned /*flags*/) {
  return kSuccess;
}
Result cuDriverGetVersion(int* to) {
  *to = version;
  return kSuccess;
}
Result cuGetErrorName(Result /*result*/, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return kSuccess;
}
Result cuGetErrorString(Result /*result*/, const char** text) {
  *text = "the stand-in refuses";
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(contexts.size());
  return kSuccess;
}
Result cuDeviceGet(DeviceId* id, int index) {
  *id = index;
  return kSuccess;
}
Result cuDeviceGetName(char* to, int size, DeviceId /*id*/) {
  std::snprintf(to, static_cast<std::size_t>(size), "a stand-in");
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char* to, int size, DeviceId id) {
  std::snprintf(to, static_cast<std::size_t>(size), "0000:%02d:00.0", id);
  return kSuccess;
}
// Of an H200, as far as kernels are chosen by it.
Result cuDeviceGetAttribute(int* value, DeviceAttribute which, DeviceId /*id*/) {
  switch (which) {
    case DeviceAttribute::kComputeCapabilityMajor:
      *value = capability / 10;
      break;
    case DeviceAttribute::kComputeCapabilityMinor:
      *value = capability % 10;
      break;
    case DeviceAttribute::kMultiprocessorCount:
      *value = 132;
      break;
    case DeviceAttribute::kL2CacheSize:
      *value = 50 << 20;
      break;
    case DeviceAttribute::kMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
    default:
      *value = 1;
  }
  return kSuccess;
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceId /*id*/) {
  *bytes = std::size_t{1} << 30;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(Context* context, DeviceId id) {
  *context = &contexts[static_cast<std::size_t>(id)];
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceId /*id*/) {
  return kSuccess;
}
Result cuCtxGetCurrent(Context* context) {
  *context = current;
  return kSuccess;
}
Result cuCtxSetCurrent(Context context) {
  current = context;
  return kSuccess;
}
Result cuCtxSynchronize() {
  return current == nullptr ? kInvalidContext : kSuccess;
}
Result cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  *available = *total = std::size_t{1} << 30;
  return kSuccess;
}
Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  return spoils() ? kCaptureUnsupported : make(address, bytes);
}
Result cuMemFree_v2(Address address) {
  return destroy(reinterpret_cast<void*>(address));
}
Result cuMemHostAlloc(void** address, std::size_t bytes, unsigned /*flags*/) {
  return make(address, bytes);
}
Result cuMemFreeHost(void* address) {
  return destroy(address);
}
Result cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes,
                            StreamHandle /*stream*/) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kSuccess;
}
Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, StreamHandle /*stream*/) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return kSuccess;
}
Result cuMemcpyDtoDAsync_v2(Address /*to*/, Address /*from*/, std::size_t /*bytes*/,
                            StreamHandle /*stream*/) {
  return kNotSupported;
}
Result cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes,
                       StreamHandle /*stream*/) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return kSuccess;
}
Result cuStreamCreate(StreamHandle* stream, unsigned /*flags*/) {
  return make(stream);
}
Result cuStreamDestroy_v2(StreamHandle stream) {
  return destroy(stream);
}
Result cuStreamSynchronize(StreamHandle /*stream*/) {
  return spoils() ? kCaptureUnsupported : kSuccess;
}
Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(capture_mode, *mode);
  return kSuccess;
}
Result cuStreamWaitEvent(StreamHandle /*stream*/, EventHandle /*event*/, unsigned /*flags*/) {
  return kSuccess;
}
Result cuStreamBeginCapture_v2(StreamHandle /*stream*/, int /*mode*/) {
  return kSuccess;
}
Result cuStreamEndCapture(StreamHandle /*stream*/, GraphHandle* graph) {
  return make(graph);
}
Result cuGraphInstantiateWithFlags(GraphExec* exec, GraphHandle /*graph*/,
                                   unsigned long long /*flags*/) {
  return make(exec);
}
Result cuGraphLaunch(GraphExec /*exec*/, StreamHandle /*stream*/) {
  return kSuccess;
}
Result cuGraphDestroy(GraphHandle graph) {
  return destroy(graph);
}
Result cuGraphExecDestroy(GraphExec exec) {
  return destroy(exec);
}
Result cuEventCreate(EventHandle* event, unsigned /*flags*/) {
  return make(event);
}
Result cuEventDestroy_v2(EventHandle event) {
  return destroy(event);
}
Result cuEventRecord(EventHandle /*event*/, StreamHandle /*stream*/) {
  return kSuccess;
}
Result cuEventQuery(EventHandle /*event*/) {
  return kSuccess;
}
Result cuEventSynchronize(EventHandle /*event*/) {
  return kSuccess;
}
Result cuEventElapsedTime(float* milliseconds, EventHandle /*start*/, EventHandle /*end*/) {
  *milliseconds = 1;
  return kSuccess;
}
Result cuModuleLoadDataEx(Module* module, const void* image, unsigned /*options*/, int* /*names*/,
                          void** /*values*/) {
  if (spoils()) {
    return kCaptureUnsupported;
  }
  if (load_result != kSuccess) {
    return load_result;
  }
  const Result made = make(module);
  const std::lock_guard lock(mutex);
  // As the driver does, reads on to a zero byte where it finds no machine code.
  modules_of_ptx[*module] =
      std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) != 0 &&
      std::string_view(static_cast<const char*>(image)).find(".target sm_90\n") !=
          std::string_view::npos;
  return made;
}
Result cuModuleUnload(Module module) {
  return destroy(module);
}
Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  const std::lock_guard lock(mutex);
  if (!objects.contains(module)) {
    return kInvalidValue;
  }
  EntryPoint& found = entry_points[{module, name}];
  found = {.module = module, .name = name};
  *function = reinterpret_cast<Function>(&found);
  return kSuccess;
}
Result cuFuncGetAttribute(int* value, FunctionAttribute /*which*/, Function /*function*/) {
  *value = 0;
  return kSuccess;
}
Result cuFuncSetAttribute(Function /*function*/, FunctionAttribute /*which*/, int /*value*/) {
  return kSuccess;
}
Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** /*params*/,
                        void** /*extra*/) {
  const std::lock_guard lock(mutex);
  const auto& entry = *reinterpret_cast<const EntryPoint*>(function);
  const auto found = objects.find(entry.module);
  if (found == objects.end() || found->second != current) {
    ++astray;
    return kInvalidContext;
  }
  FakeLaunch launch{.kernel = entry.name.c_str(),
                    .stream = config->stream,
                    .dependent = 0,
                    .ptx = modules_of_ptx[entry.module] ? 1 : 0};
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == kLaunchAttributeProgrammaticStreamSerialization) {
      launch.dependent = attribute.value.flag;
    }
  }
  launches.push_back(launch);
  return kSuccess;
}
Result cuTensorMapEncodeTiled(void* /*map*/, int /*type*/, std::uint32_t /*rank*/,
                              void* /*address*/, const std::uint64_t* /*dims*/,
                              const std::uint64_t* /*strides*/, const std::uint32_t* /*box*/,
                              const std::uint32_t* /*element_strides*/, int /*interleave*/,
                              int /*swizzle*/, int /*promotion*/, int /*fill*/) {
  return current == nullptr ? kInvalidContext : kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
