// The transformer layers of a tower, which are the same for images and texts: their weights, with
// norms folded in where the backend takes them, prepared by a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/support.hpp"
#include "model/calibration.hpp"
#include "model/checkpoint.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// A size of the configuration, which has no negative ones, as an index.
[[nodiscard]] constexpr std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// A linear layer or a norm as float32.
struct LayerParameters {
  AlignedBuffer<float> weight;  // [out, in], or [width] of a norm
  AlignedBuffer<float> bias;    // [out]
};

/// The weight and the bias of a part, held while a backend prepares them.
[[nodiscard]] LayerParameters load_parameters(const Checkpoint& checkpoint, Part part,
                                              std::int64_t layer = 0);
/// Views of them.
[[nodiscard]] ops::LinearWeights linear_weights(const LayerParameters& parameters);
[[nodiscard]] ops::LayerNormWeights norm_weights(const LayerParameters& parameters);

/// The linear layer at one of kCalibratedPlaces in layer `index`: kQkv is query, key and value as
/// one.
[[nodiscard]] LayerParameters load_layer(const Checkpoint& checkpoint, ops::Place place,
                                         std::int64_t index);

/// Norms are null where the backend normalises as the next linear layer reads (its can_run
/// decides): they are then part of that layer's weights.
struct LayerWeights {
  ops::TensorTypes types;  // of its activations
  ops::PreparedPtr norm1;
  ops::PreparedPtr qkv;
  ops::PreparedPtr out;
  ops::PreparedPtr norm2;
  ops::PreparedPtr fc1;
  ops::PreparedPtr fc2;
};

/// Throws fovea::Error with the reason when the backend does not run an operator of the network.
template <typename Problem>
void require_support(const ops::Backend& backend, const Problem& problem) {
  if (const Support support = backend.can_run(problem); !support) {
    fail("{} cannot run this model: {}: {}", backend.description(), to_string(problem),
         support.why);
  }
}

/// All layers of the checkpoint's tower.
class TowerWeights {
 public:
  /// Loads and prepares every tensor of the layers, and what `others` do, several at a time; only
  /// these are held as float32. In 8 bits the weights are those of the calibration.
  TowerWeights(const Checkpoint& checkpoint, ops::Backend& backend,
               std::vector<std::function<void()>> others);

  [[nodiscard]] const std::vector<LayerWeights>& layers() const { return layers_; }
  /// What a user may not expect of the calibration, "; " between two: "the first 4 of 12 layers
  /// are in bf16", "calibrated by PATH" when that is not beside the weights.
  [[nodiscard]] std::string calibration_words(const ops::Backend& backend) const;

 private:
  std::vector<LayerWeights> layers_;
  std::int64_t bf16_layers_ = 0;
  std::filesystem::path calibration_;  // when it is not beside the weights
};

}  // namespace fovea::model
