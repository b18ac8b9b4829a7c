// CUDA's runtime in the emulator: the device, errors and versions.
#include <array>
#include <climits>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

// A member of cudaDeviceProp, which has 4 or 8 bytes. Versions 12 and 13 of the runtime have other
// offsets; -1: the version has no such member.
struct PropertyField {
  int offset_12 = -1;
  int offset_13 = -1;
  int bytes = 4;
  int attribute = 0;  // that has the value
};

constexpr std::size_t kBytes12 = 1032;
constexpr std::size_t kBytes13 = 1008;
constexpr std::size_t kNameBytes = 256;
constexpr std::size_t kTotalMemoryOffset = 288;

constexpr std::array kFields = {
    PropertyField{296, 296, 8, 8},   // sharedMemPerBlock
    PropertyField{304, 304, 4, 12},  // regsPerBlock
    PropertyField{308, 308, 4, 10},  // warpSize
    PropertyField{312, 312, 8, 11},  // memPitch
    PropertyField{320, 320, 4, 1},   // maxThreadsPerBlock
    PropertyField{324, 324, 4, 2},   // maxThreadsDim
    PropertyField{328, 328, 4, 3},   PropertyField{332, 332, 4, 4},
    PropertyField{336, 336, 4, 5},  // maxGridSize
    PropertyField{340, 340, 4, 6},   PropertyField{344, 344, 4, 7},
    PropertyField{348, -1, 4, 13},    // clockRate
    PropertyField{352, 352, 8, 9},    // totalConstMem
    PropertyField{360, 360, 4, 75},   // major
    PropertyField{364, 364, 4, 76},   // minor
    PropertyField{368, 368, 8, 14},   // textureAlignment
    PropertyField{384, -1, 4, 15},    // deviceOverlap
    PropertyField{388, 384, 4, 16},   // multiProcessorCount
    PropertyField{400, 392, 4, 19},   // canMapHostMemory
    PropertyField{576, 560, 4, 31},   // concurrentKernels
    PropertyField{600, 584, 4, 40},   // asyncEngineCount
    PropertyField{604, 588, 4, 41},   // unifiedAddressing
    PropertyField{608, -1, 4, 36},    // memoryClockRate
    PropertyField{612, 592, 4, 37},   // memoryBusWidth
    PropertyField{616, 596, 4, 38},   // l2CacheSize
    PropertyField{624, 604, 4, 39},   // maxThreadsPerMultiProcessor
    PropertyField{628, 608, 4, 78},   // streamPrioritiesSupported
    PropertyField{632, 612, 4, 79},   // globalL1CacheSupported
    PropertyField{636, 616, 4, 80},   // localL1CacheSupported
    PropertyField{640, 624, 8, 81},   // sharedMemPerMultiprocessor
    PropertyField{648, 632, 4, 82},   // regsPerMultiprocessor
    PropertyField{652, 636, 4, 83},   // managedMemory
    PropertyField{668, -1, 4, 87},    // singleToDoublePrecisionPerfRatio
    PropertyField{680, 660, 4, 90},   // computePreemptionSupported
    PropertyField{684, 664, 4, 91},   // canUseHostPointerForRegisteredMem
    PropertyField{688, 668, 4, 95},   // cooperativeLaunch
    PropertyField{696, 672, 8, 97},   // sharedMemPerBlockOptin
    PropertyField{712, 688, 4, 106},  // maxBlocksPerMultiProcessor
    PropertyField{720, 696, 8, 111},  // reservedSharedMemPerBlock
    PropertyField{728, 704, 4, 99},   // hostRegisterSupported
    PropertyField{744, 720, 4, 115},  // memoryPoolsSupported
    PropertyField{772, 748, 4, 120},  // clusterLaunch
};

int get_properties(const char* function, void* to, int device, bool is_version_12) {
  return runtime_call(function, [&](Gpu& gpu) {
    if (device != 0) {
      throw CallError{kInvalidDevice, fmt::format("there is one device, not number {}", device)};
    }
    if (to == nullptr) {
      throw CallError{kInvalidValue};
    }
    auto* const bytes = static_cast<std::byte*>(to);
    std::memset(bytes, 0, is_version_12 ? kBytes12 : kBytes13);
    std::strncpy(static_cast<char*>(to), device_name(gpu), kNameBytes - 1);
    const std::size_t memory = gpu.settings().max_memory;
    std::memcpy(bytes + kTotalMemoryOffset, &memory, sizeof(memory));
    for (const PropertyField& field : kFields) {
      const int offset = is_version_12 ? field.offset_12 : field.offset_13;
      const std::int64_t value = device_attribute(gpu, field.attribute);
      if (offset >= 0) {  // little-endian, so that the low bytes are those of a number of 4 bytes
        std::memcpy(bytes + offset, &value, static_cast<std::size_t>(field.bytes));
      }
    }
  });
}

int get_entry_point(const char* name, void** to, int* status) {
  return runtime_call("cudaGetDriverEntryPoint", [&](Gpu&) {
    void* const found = find_entry_point(name);
    store(to, found);
    if (status != nullptr) {
      *status = found != nullptr ? 0 : 1;  // cudaDriverEntryPointSuccess, SymbolNotFound
    }
    return found != nullptr || status != nullptr ? kSuccess : kNotFound;
  });
}

}  // namespace

FOVEA_ENTRY cudaGetDeviceProperties(void* to, int device) {
  return get_properties(__func__, to, device, false);
}
FOVEA_ENTRY cudaGetDeviceProperties_v2(void* to, int device) {
  return get_properties("cudaGetDeviceProperties", to, device, true);
}
FOVEA_ENTRY cudaDeviceGetAttribute(int* to, int attribute, int /*device*/) {
  return runtime_call(__func__, [&](Gpu& gpu) { store(to, device_attribute(gpu, attribute)); });
}
FOVEA_ENTRY cudaGetDeviceCount(int* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 1); });
}
FOVEA_ENTRY cudaGetDevice(int* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 0); });
}
FOVEA_ENTRY cudaSetDevice(int device) {
  return runtime_call(__func__, [&](Gpu&) {
    if (device != 0) {
      throw CallError{kInvalidDevice,
                      fmt::format("the emulator has one device, not number {}", device)};
    }
  });
}
FOVEA_ENTRY cudaInitDevice(int device, unsigned /*device_flags*/, unsigned /*flags*/) {
  return cudaSetDevice(device);
}
FOVEA_ENTRY cudaChooseDevice(int* to, const void* /*properties*/) {
  return cudaGetDevice(to);
}
FOVEA_ENTRY cudaSetDeviceFlags(unsigned /*flags*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaGetDeviceFlags(unsigned* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 0); });
}
FOVEA_ENTRY cudaDeviceSynchronize() {
  return runtime_call(__func__, [](Gpu& gpu) { gpu.synchronize(); });
}
FOVEA_ENTRY cudaDeviceReset() {
  return runtime_call(__func__, [](Gpu& gpu) { gpu.synchronize(); });
}
FOVEA_ENTRY cudaDeviceGetPCIBusId(char* to, int bytes, int /*device*/) {
  return runtime_call(__func__, [&](Gpu&) { store_text(to, bytes, kBusId); });
}
FOVEA_ENTRY cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return runtime_call(__func__, [&](Gpu&) {
    store(least, 0);
    store(greatest, -5);
  });
}
FOVEA_ENTRY cudaDeviceSetLimit(int /*limit*/, std::size_t /*value*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaDeviceGetLimit(std::size_t* to, int /*limit*/) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 1U << 20U); });
}
FOVEA_ENTRY cudaDeviceSetCacheConfig(int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaDeviceGetCacheConfig(int* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 0); });
}
FOVEA_ENTRY cudaDeviceSetSharedMemConfig(int /*config*/) {
  return kSuccess;
}
FOVEA_ENTRY cudaDeviceGetSharedMemConfig(int* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 1); });
}
FOVEA_ENTRY cudaDeviceCanAccessPeer(int* to, int /*device*/, int /*peer*/) {
  return runtime_call(__func__, [&](Gpu&) { store(to, 0); });
}
FOVEA_ENTRY cudaCtxResetPersistingL2Cache() {
  return kSuccess;
}
FOVEA_ENTRY cudaProfilerStart() {
  return kSuccess;
}
FOVEA_ENTRY cudaProfilerStop() {
  return kSuccess;
}
FOVEA_ENTRY cudaDriverGetVersion(int* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, kCudaVersion); });
}
FOVEA_ENTRY cudaRuntimeGetVersion(int* to) {
  return runtime_call(__func__, [&](Gpu&) { store(to, kCudaVersion); });
}

FOVEA_ENTRY cudaGetLastError() {
  return std::exchange(last_error(), kSuccess);
}
FOVEA_ENTRY cudaPeekAtLastError() {
  return last_error();
}
extern "C" [[gnu::visibility("default")]] const char* cudaGetErrorName(int code) {
  const ErrorText error = describe_error(code);
  return error.runtime_name != nullptr ? error.runtime_name : "unrecognized error code";
}
extern "C" [[gnu::visibility("default")]] const char* cudaGetErrorString(int code) {
  const ErrorText error = describe_error(code);
  return error.text != nullptr ? error.text : "unrecognized error code";
}

FOVEA_ENTRY cudaGetDriverEntryPoint(const char* name, void** to, unsigned long long /*flags*/,
                                    int* status) {
  return get_entry_point(name, to, status);
}
FOVEA_ENTRY cudaGetDriverEntryPointByVersion(const char* name, void** to, unsigned /*version*/,
                                             unsigned long long /*flags*/, int* status) {
  return get_entry_point(name, to, status);
}

FOVEA_ALIAS(cudaDeviceSynchronize, cudaThreadSynchronize)
FOVEA_ALIAS(cudaDeviceReset, cudaThreadExit)
FOVEA_ALIAS(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz)
FOVEA_ALIAS(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz)

}  // namespace fovea::programs
