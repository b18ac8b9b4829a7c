// VisionWeights: all weights of the vision tower, folded, and prepared by a backend.
#pragma once

#include <cstdint>

#include "model/checkpoint.hpp"
#include "model/layer_weights.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// The operators around the layers, for `images` images of `total` tokens together where they
/// differ: what makes tokens of patches, the pooling head, which does not normalise what it reads
/// unless its caller says so, and what takes the first token of each image.
[[nodiscard]] ops::PatchEmbedProblem patch_embed_problem(const VisionConfig& vision, DType stream,
                                                         std::int64_t images, std::int64_t total);
[[nodiscard]] ops::PoolProblem pool_problem(const VisionConfig& vision, DType stream,
                                            std::int64_t images, std::int64_t total);
[[nodiscard]] ops::ProjectProblem token_problem(const VisionConfig& vision, DType stream,
                                                std::int64_t images);

class VisionWeights {
 public:
  ops::PreparedPtr patch_embed;
  ops::PreparedPtr post_norm;
  ops::PreparedPtr pool;       // of PoolWeights or ProjectWeights; null without pooling
  bool pool_has_norm = false;  // the pooling head has post_norm in it, too

  /// Loads and prepares every tensor, several at a time; only these are held as float32.
  VisionWeights(const Checkpoint& checkpoint, ops::Backend& backend);

  [[nodiscard]] const TowerWeights& tower() const { return tower_; }

 private:
  TowerWeights tower_;  // the last: its constructor fills the others
};

}  // namespace fovea::model
