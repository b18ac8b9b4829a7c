// VisionWeights: all weights of the vision tower, folded, and prepared by a backend.
#pragma once

#include <cstdint>

#include "model/checkpoint.hpp"
#include "model/layer_weights.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// Return the problems of the operators before and after the layers: the patch embedding, the
/// pooling head (without built-in norm unless the caller sets it), and the projection of the first
/// token. `total` is the number of tokens in all images if their sizes differ.
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
  ops::PreparedPtr pool;       // from PoolWeights or ProjectWeights; null without pooling
  bool pool_has_norm = false;  // whether the pooling head includes post_norm

  /// Loads and prepares all tensors, several in parallel. Only those being prepared are in memory
  /// as float32.
  VisionWeights(const Checkpoint& checkpoint, ops::Backend& backend);

  [[nodiscard]] const TowerWeights& tower() const { return tower_; }

 private:
  TowerWeights tower_;  // the last member, since its constructor fills the others
};

}  // namespace fovea::model
