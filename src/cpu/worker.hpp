// Worker: what a thread computes operators with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "cpu/tiles/tile_kernel.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

/// Memory that belongs to one thread from one operator to the next.
struct Worker {
  AlignedBuffer<Unit> rows;                  // packed A
  AlignedBuffer<Unit> keys;                  // packed B
  AlignedBuffer<Unit> values;                // packed B
  AlignedBuffer<float> scores;               // of attention and pooling
  AlignedBuffer<std::byte> weights;          // of attention: exponentials
  AlignedBuffer<std::byte> converted;        // operands as tiles take them
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
