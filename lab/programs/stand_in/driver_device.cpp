// CUDA's driver in the emulator: the device, contexts, errors and entry points.
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

// The one context, which is current on all threads.
char the_context = 0;

int get_context(const char* function, void** to) {
  return driver_call(function, [&](Gpu&) { store(to, &the_context); });
}

int get_entry_point(const char* name, void** to, int* status) {
  return driver_call("cuGetProcAddress", [&](Gpu&) {
    void* const found = find_entry_point(name);
    store(to, found);
    if (status != nullptr) {
      *status = found != nullptr ? 0 : 1;  // success, or there is no such symbol
    }
    return found != nullptr ? kSuccess : kNotFound;
  });
}

}  // namespace

FOVEA_ENTRY cuInit(unsigned /*flags*/) {
  return kSuccess;
}
FOVEA_ENTRY cuDriverGetVersion(int* to) {
  return driver_call(__func__, [&](Gpu&) { store(to, kCudaVersion); });
}
FOVEA_ENTRY cuDeviceGetCount(int* to) {
  return driver_call(__func__, [&](Gpu&) { store(to, 1); });
}
FOVEA_ENTRY cuDeviceGet(int* to, int number) {
  return driver_call(__func__, [&](Gpu&) {
    if (number != 0) {
      throw CallError{kInvalidDevice,
                      fmt::format("the emulator has one device, not number {}", number)};
    }
    store(to, 0);
  });
}
FOVEA_ENTRY cuDeviceGetName(char* to, int bytes, int /*device*/) {
  return driver_call(__func__, [&](Gpu& gpu) { store_text(to, bytes, device_name(gpu)); });
}
FOVEA_ENTRY cuDeviceGetUuid_v2(void* to, int /*device*/) {
  constexpr std::size_t kUuidBytes = 16;
  std::memset(to, 0, kUuidBytes);
  return kSuccess;
}
FOVEA_ENTRY cuDeviceGetPCIBusId(char* to, int bytes, int /*device*/) {
  return driver_call(__func__, [&](Gpu&) { store_text(to, bytes, kBusId); });
}
FOVEA_ENTRY cuDeviceTotalMem_v2(std::size_t* to, int /*device*/) {
  return driver_call(__func__, [&](Gpu& gpu) { store(to, gpu.settings().max_memory); });
}
FOVEA_ENTRY cuDeviceGetAttribute(int* to, int attribute, int /*device*/) {
  return driver_call(__func__, [&](Gpu& gpu) { store(to, device_attribute(gpu, attribute)); });
}
FOVEA_ENTRY cuDeviceComputeCapability(int* major, int* minor, int /*device*/) {
  return driver_call(__func__, [&](Gpu& gpu) {
    store(major, gpu.settings().arch / 10);
    store(minor, gpu.settings().arch % 10);
  });
}
FOVEA_ENTRY cuDeviceCanAccessPeer(int* to, int /*device*/, int /*peer*/) {
  return driver_call(__func__, [&](Gpu&) { store(to, 0); });
}

FOVEA_ENTRY cuDevicePrimaryCtxRetain(void** to, int /*device*/) {
  return get_context(__func__, to);
}
FOVEA_ENTRY cuDevicePrimaryCtxRelease_v2(int /*device*/) {
  return kSuccess;
}
FOVEA_ENTRY cuDevicePrimaryCtxReset_v2(int /*device*/) {
  return kSuccess;
}
FOVEA_ENTRY cuDevicePrimaryCtxSetFlags_v2(int /*device*/, unsigned /*flags*/) {
  return kSuccess;
}
FOVEA_ENTRY cuDevicePrimaryCtxGetState(int /*device*/, unsigned* flags, int* active) {
  return driver_call(__func__, [&](Gpu&) {
    store(flags, 0);
    store(active, 1);
  });
}
FOVEA_ENTRY cuCtxCreate_v2(void** to, unsigned /*flags*/, int /*device*/) {
  return get_context(__func__, to);
}
FOVEA_ENTRY cuCtxCreate_v4(void** to, void* /*parameters*/, unsigned /*flags*/, int /*device*/) {
  return get_context(__func__, to);
}
FOVEA_ENTRY cuCtxDestroy_v2(void* /*context*/) {
  return driver_call(__func__, [](Gpu& gpu) { gpu.synchronize(); });
}
FOVEA_ENTRY cuCtxGetCurrent(void** to) {
  return get_context(__func__, to);
}
FOVEA_ENTRY cuCtxSetCurrent(void* /*context*/) {
  return kSuccess;
}
FOVEA_ENTRY cuCtxPushCurrent_v2(void* /*context*/) {
  return kSuccess;
}
FOVEA_ENTRY cuCtxPopCurrent_v2(void** to) {
  return to == nullptr ? int{kSuccess} : get_context(__func__, to);
}
FOVEA_ENTRY cuCtxGetDevice(int* to) {
  return driver_call(__func__, [&](Gpu&) { store(to, 0); });
}
FOVEA_ENTRY cuCtxGetFlags(unsigned* to) {
  return driver_call(__func__, [&](Gpu&) { store(to, 0); });
}
FOVEA_ENTRY cuCtxGetApiVersion(void* /*context*/, unsigned* to) {
  return driver_call(__func__, [&](Gpu&) { store(to, kCudaVersion); });
}
FOVEA_ENTRY cuCtxSynchronize() {
  return driver_call(__func__, [](Gpu& gpu) { gpu.synchronize(); });
}
FOVEA_ENTRY cuCtxSetLimit(int /*limit*/, std::size_t /*value*/) {
  return kSuccess;
}
FOVEA_ENTRY cuCtxGetLimit(std::size_t* to, int /*limit*/) {
  return driver_call(__func__, [&](Gpu&) { store(to, 1U << 20U); });
}
FOVEA_ENTRY cuCtxSetCacheConfig(int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return driver_call(__func__, [&](Gpu&) {
    store(least, 0);
    store(greatest, -5);
  });
}
FOVEA_ENTRY cuProfilerStart() {
  return kSuccess;
}
FOVEA_ENTRY cuProfilerStop() {
  return kSuccess;
}

FOVEA_ENTRY cuGetErrorName(int code, const char** to) {
  *to = describe_error(code).driver_name;
  return *to != nullptr ? kSuccess : kInvalidValue;
}
FOVEA_ENTRY cuGetErrorString(int code, const char** to) {
  *to = describe_error(code).text;
  return *to != nullptr ? kSuccess : kInvalidValue;
}

FOVEA_ENTRY cuGetProcAddress(const char* name, void** to, int /*version*/,
                             std::uint64_t /*flags*/) {
  return get_entry_point(name, to, nullptr);
}
FOVEA_ENTRY cuGetProcAddress_v2(const char* name, void** to, int /*version*/,
                                std::uint64_t /*flags*/, int* status) {
  return get_entry_point(name, to, status);
}
// Tables without documentation, which only NVIDIA's own libraries ask for.
FOVEA_ENTRY cuGetExportTable(const void** to, const void* /*id*/) {
  return driver_call(__func__, [&](Gpu&) {
    *to = nullptr;
    throw CallError{kNotSupported,
                    "the program contains the static CUDA runtime, in whose place the emulator "
                    "cannot stand; build it with nvcc -cudart shared"};
  });
}

FOVEA_ALIAS(cuDeviceGetUuid_v2, cuDeviceGetUuid)
FOVEA_ALIAS(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease)

}  // namespace fovea::programs
