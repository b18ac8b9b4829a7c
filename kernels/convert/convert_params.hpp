// Parameters of the kernels that convert results; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::convert {

inline constexpr int kThreads = 256;
inline constexpr int kUnit = 8;  // elements that a thread converts at once

/// Converts `count` elements, rounded to nearest even; both arrays are 16-byte aligned.
struct Params {
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;  // a multiple of kUnit
};

}  // namespace fovea::convert
