// What the laboratory's own kernels take; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::remainder {

inline constexpr int kThreads = 256;
inline constexpr int kElements = 8;  // a thread and step: 16 bytes of bf16

struct Params {
  const void* y = nullptr;       // bf16, what a library's matrix product has left
  const void* addend = nullptr;  // bf16, added by FOVEA_ADD
  void* output = nullptr;        // bf16 of FOVEA_ADD, else e4m3; may be y when bf16
  std::uint32_t chunks = 0;      // of kElements
  std::uint32_t period = 0;      // chunks of the addend, which repeats
  float inverse_scale = 1.0F;    // e4m3: what is stored is the result times this
};

}  // namespace fovea::remainder
