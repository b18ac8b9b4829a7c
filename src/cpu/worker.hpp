// Worker: the scratch memory of a thread that computes operators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "cpu/tiles/tile_kernel.hpp"
#include "ops/backend.hpp"

namespace fovea::cpu {

/// Thread-private buffers, reused from operator to operator.
struct Worker {
  AlignedBuffer<Unit> rows;                  // packed A
  AlignedBuffer<Unit> keys;                  // packed B
  AlignedBuffer<Unit> values;                // packed B
  AlignedBuffer<float> scores;               // for attention and pooling
  AlignedBuffer<std::byte> weights;          // for attention: exponentials
  AlignedBuffer<std::byte> converted;        // operands converted to the type that tiles take
  std::array<AlignedBuffer<float>, 4> wide;  // operands as float32
  ops::Profile times;
};

/// Returns the address of an element.
inline const std::byte* at(const void* base, std::int64_t element, DType type) {
  return static_cast<const std::byte*>(base) + element * static_cast<std::int64_t>(size_of(type));
}
inline std::byte* at(void* base, std::int64_t element, DType type) {
  return static_cast<std::byte*>(base) + element * static_cast<std::int64_t>(size_of(type));
}

}  // namespace fovea::cpu
