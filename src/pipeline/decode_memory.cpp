// How much memory decoding takes unless the user says so.
#include "pipeline/decode_memory.hpp"

#include <algorithm>

#include "core/memory_limit.hpp"

namespace fovea::pipeline {

std::uint64_t default_decode_memory(int threads) {
  // The memory of an ordinary photo decoded as a whole, and of the largest image that is read.
  constexpr std::uint64_t kPhoto = std::uint64_t{64} << 20;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;
  return std::min(memory_limit() / 2,
                  std::max(kLargest, kPhoto * static_cast<std::uint64_t>(std::max(threads, 1))));
}

}  // namespace fovea::pipeline
