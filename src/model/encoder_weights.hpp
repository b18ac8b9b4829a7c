// EncoderWeights: the vision tower's weights, folded, and prepared by a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// A size of the configuration, which has no negative ones, as an index.
[[nodiscard]] constexpr std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// A linear layer as float32.
struct LayerParameters {
  AlignedBuffer<float> weight;  // [out, in]
  AlignedBuffer<float> bias;    // [out]
};

/// The layer "qkv" (q_proj, k_proj and v_proj as one), "fc1" or "fc2" of encoder layer `index`.
[[nodiscard]] LayerParameters load_layer(const Checkpoint& checkpoint, std::string_view place,
                                         std::int64_t index);

struct EncoderWeights {
  /// Norms are null where the backend normalises as the next linear layer reads (its can_run
  /// decides):
  /// they are then part of that layer's weights.
  struct Layer {
    ops::TensorTypes types;  // of its activations
    ops::PreparedPtr norm1;
    ops::PreparedPtr qkv;
    ops::PreparedPtr out;
    ops::PreparedPtr norm2;
    ops::PreparedPtr fc1;
    ops::PreparedPtr fc2;
  };

  ops::PreparedPtr patch_embed;
  std::vector<Layer> layers;
  std::int64_t bf16_layers = 0;  // the first ones, of a network whose others are in 8 bits
  ops::PreparedPtr post_norm;
  ops::PreparedPtr pool;

  /// Loads and prepares every tensor, several at a time; only these are held as float32.
  EncoderWeights(const Checkpoint& checkpoint, ops::Backend& backend);
};

}  // namespace fovea::model
