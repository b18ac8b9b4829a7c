// DecodeMemory: the memory that all images together may take while they are read and decoded.
#pragma once

#include <cstdint>

#include "core/memory_pool.hpp"
#include "core/stop.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {

/// Returns half of the memory that this process may use, but no more than decoding takes: of one
/// typical photo per thread, or of one image of the largest size if that is more.
[[nodiscard]] std::uint64_t default_decode_memory(int threads);

/// The memory pools for encoded and for decoded images. Every thread allocates from them in this
/// order, so that no two threads wait for each other.
class DecodeMemory {
 public:
  explicit DecodeMemory(std::uint64_t bytes) : encoded_(bytes / 4), decoded_(bytes / 4 * 3) {}

  [[nodiscard]] Limits limits(std::int64_t max_pixels, StopFlag stop = {}) {
    return {.stop = stop, .encoded = &encoded_, .decoded = &decoded_, .max_pixels = max_pixels};
  }

 private:
  MemoryPool encoded_;
  MemoryPool decoded_;
};

}  // namespace fovea::pipeline
