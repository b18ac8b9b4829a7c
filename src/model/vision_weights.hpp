// VisionWeights: all weights of the vision tower, folded, and prepared by a backend.
#pragma once

#include "model/checkpoint.hpp"
#include "model/layer_weights.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

class VisionWeights {
 public:
  ops::PreparedPtr patch_embed;
  ops::PreparedPtr post_norm;
  ops::PreparedPtr pool;       // null when the model has no pooling head
  bool pool_has_norm = false;  // the pooling head has post_norm in it, too

  /// Loads and prepares every tensor, several at a time; only these are held as float32.
  VisionWeights(const Checkpoint& checkpoint, ops::Backend& backend);

  [[nodiscard]] const TowerWeights& tower() const { return tower_; }

 private:
  TowerWeights tower_;  // the last: its constructor fills the others
};

}  // namespace fovea::model
