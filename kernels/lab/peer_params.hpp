// What the laboratory's own kernel takes; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::peer {

inline constexpr int kThreads = 256;
inline constexpr int kElements = 8;  // per thread and step: 16 bytes of bf16

struct AddParams {
  const void* y = nullptr;       // bf16, what a library's matrix product has left
  const void* addend = nullptr;  // bf16
  void* output = nullptr;        // bf16; may be y
  std::uint32_t chunks = 0;      // of kElements
  std::uint32_t period = 0;      // chunks of the addend, which repeats
};

}  // namespace fovea::peer
