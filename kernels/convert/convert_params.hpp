// What the kernels that convert results take; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::convert {

inline constexpr int kThreads = 256;
inline constexpr int kUnit = 8;  // elements that a thread converts at once

/// output (count) = input (count), rounded to nearest even; both are 16-byte aligned.
struct Params {
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;  // a multiple of kUnit
};

}  // namespace fovea::convert
