// Parameters of the laboratory's own kernel; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::peer {

inline constexpr int kThreads = 256;
inline constexpr int kElements = 8;  // elements per thread and step: 16 bytes of bf16

struct AddParams {
  const void* y = nullptr;       // bf16, the result of a library's matrix product
  const void* addend = nullptr;  // bf16
  void* output = nullptr;        // bf16; may be y
  std::uint32_t chunks = 0;      // chunks of kElements elements
  std::uint32_t period = 0;      // chunks after which the addend repeats
};

}  // namespace fovea::peer
