// EncoderWeights: the vision tower's weights, folded, and prepared by a backend.
#pragma once

#include <vector>

#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

struct EncoderWeights {
  struct Layer {
    ops::PreparedPtr norm1;
    ops::PreparedPtr qkv;
    ops::PreparedPtr out;
    ops::PreparedPtr norm2;
    ops::PreparedPtr fc1;
    ops::PreparedPtr fc2;
  };

  ops::PreparedPtr patch_embed;
  std::vector<Layer> layers;
  ops::PreparedPtr post_norm;
  ops::PreparedPtr pool;

  /// Loads and prepares every tensor, several at a time; only those in work are held as float32.
  EncoderWeights(const Checkpoint& checkpoint, ops::Backend& backend);
};

}  // namespace fovea::model
