// Attributes of the emulated GPU.
#include <algorithm>
#include <array>
#include <climits>

#include <fmt/format.h>

#include "lab/programs/stand_in/calls.hpp"

namespace fovea::programs {
namespace {

struct Attribute {
  int number;
  int value;
};

// Attributes of a Hopper, by their numbers in NVIDIA's headers, which the runtime and the driver
// share; all others between 1 and the last one are 0.
constexpr std::array kAttributes = {
    Attribute{1, GpuLimits::kMaxThreads},
    Attribute{2, 1024},     // maximal block, x
    Attribute{3, 1024},     // y
    Attribute{4, 64},       // z
    Attribute{5, INT_MAX},  // maximal grid, x
    Attribute{6, 65535},    // y
    Attribute{7, 65535},    // z
    Attribute{8, GpuLimits::kSharedBytes},
    Attribute{9, 64 * 1024},  // constant memory
    Attribute{10, 32},        // warp
    Attribute{11, INT_MAX},   // pitch
    Attribute{12, GpuLimits::kRegisters},
    Attribute{13, GpuLimits::kClockKhz},
    Attribute{14, 512},  // alignment of textures
    Attribute{15, 1},    // copies overlap kernels
    Attribute{16, GpuLimits::kSms},
    Attribute{19, 1},          // host memory can be mapped
    Attribute{31, 1},          // concurrent kernels
    Attribute{36, 2'619'000},  // memory clock in kHz
    Attribute{37, 5120},       // width of the memory bus in bits
    Attribute{38, GpuLimits::kL2Bytes},
    Attribute{39, GpuLimits::kThreadsPerSm},
    Attribute{40, 1},  // copy engines
    Attribute{41, 1},  // unified addressing
    Attribute{78, 1},  // stream priorities
    Attribute{79, 1},  // global L1
    Attribute{80, 1},  // local L1
    Attribute{81, GpuLimits::kSharedBytesPerSm},
    Attribute{82, GpuLimits::kRegisters},
    Attribute{83, 1},  // managed memory
    Attribute{87, 2},  // binary32 for each binary64
    Attribute{90, 1},  // preemption
    Attribute{91, 1},  // registered memory has the same address
    Attribute{95, 1},  // cooperative launch
    Attribute{97, GpuLimits::kMaxSharedBytes},
    Attribute{99, 1},  // memory can be registered
    Attribute{106, GpuLimits::kBlocksPerSm},
    Attribute{111, GpuLimits::kReservedSharedBytes},
    Attribute{115, 1},  // memory pools
    Attribute{120, 1},  // clusters
};
constexpr int kMajorAttribute = 75;
constexpr int kMinorAttribute = 76;
constexpr int kLastAttribute = 150;

}  // namespace

int device_attribute(const Gpu& gpu, int attribute) {
  if (attribute == kMajorAttribute) {
    return gpu.settings().arch / 10;
  }
  if (attribute == kMinorAttribute) {
    return gpu.settings().arch % 10;
  }
  if (attribute <= 0 || attribute > kLastAttribute) {
    throw CallError{kInvalidValue, fmt::format("there is no attribute {}", attribute)};
  }
  const auto* const found = std::ranges::find(kAttributes, attribute, &Attribute::number);
  return found == kAttributes.end() ? 0 : found->value;
}

const char* device_name(const Gpu& gpu) {
  return gpu.settings().arch >= 100 ? "Fovea emulator (sm_100a)" : "Fovea emulator (sm_90a)";
}

}  // namespace fovea::programs
