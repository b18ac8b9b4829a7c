// The default limit on the memory for decoding.
#include "pipeline/decode_memory.hpp"

#include <algorithm>

#include "core/memory_limit.hpp"

namespace fovea::pipeline {

std::uint64_t default_decode_memory(int threads) {
  // The memory to decode a typical photo, and the largest image.
  constexpr std::uint64_t kPhoto = std::uint64_t{64} << 20;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;
  return std::min(memory_limit() / 2,
                  std::max(kLargest, kPhoto * static_cast<std::uint64_t>(std::max(threads, 1))));
}

}  // namespace fovea::pipeline
