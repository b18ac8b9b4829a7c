// How a backend's narrow types hold the activations of each layer: scales and offsets.
#pragma once

#include <vector>

#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// One-byte types, whose numbers need a scale.
[[nodiscard]] constexpr bool is_narrow(DType type) {
  return size_of(type) == 1;
}

/// Tensors of one layer, in order.
struct LayerStorage {
  DType stream = DType::kF32;
  ops::Stored normed1;
  DType qkv = DType::kF32;
  ops::Stored attended;
  ops::Stored normed2;
  ops::Stored inner;
};

/// Storage of every layer for the backend's types. Floats of one byte get scales from bounds that
/// the weights imply, so that nothing is ever cut off; integers have no bits to spare for that and
/// need the model's calibration. Throws fovea::Error when there is none.
[[nodiscard]] std::vector<LayerStorage> plan_storage(const Checkpoint& checkpoint,
                                                     ops::Backend& backend);

/// The largest number that a LayerNorm of `width` can give before its weight: all but one of the
/// inputs being the same.
[[nodiscard]] double largest_normed(std::int64_t width);

}  // namespace fovea::model
