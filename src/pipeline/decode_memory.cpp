// The default limit on the memory for decoding.
#include "pipeline/decode_memory.hpp"

#include <algorithm>

#include "core/memory_limit.hpp"

namespace fovea::pipeline {

std::uint64_t default_decode_memory(int threads) {
  constexpr std::uint64_t kTypicalPhotoBytes = std::uint64_t{64} << 20;
  constexpr std::uint64_t kLargestImageBytes = std::uint64_t{1} << 30;
  const auto photos = static_cast<std::uint64_t>(std::max(threads, 1));
  return std::min(memory_limit() / 2, std::max(kLargestImageBytes, kTypicalPhotoBytes * photos));
}

}  // namespace fovea::pipeline
