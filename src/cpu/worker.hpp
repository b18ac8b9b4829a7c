// Worker: what a thread computes operators with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "cpu/matmul.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

/// Belongs to one thread from one operator to the next.
struct Worker {
  explicit Worker(MatmulCache& cache) : caller(cache) {}

  MatmulCaller caller;
  AlignedBuffer<float> scores;               // of attention and pooling
  AlignedBuffer<std::byte> block;            // of a product that is not stored where it is made
  std::array<AlignedBuffer<float>, 4> wide;  // operands as float32
  ops::Profile times;
};

/// The address of an element.
inline const std::byte* at(const void* base, std::int64_t element, DType type) {
  return static_cast<const std::byte*>(base) + element * static_cast<std::int64_t>(size_of(type));
}
inline std::byte* at(void* base, std::int64_t element, DType type) {
  return static_cast<std::byte*>(base) + element * static_cast<std::int64_t>(size_of(type));
}

}  // namespace fovea::cpu
