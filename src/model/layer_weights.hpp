// The weights of a tower's transformer layers, for images or texts, prepared by a backend, which
// may fold norms into linear layers.
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

/// Converts a size of the configuration, which is never negative, to an index.
[[nodiscard]] constexpr std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// A linear layer or a norm as float32.
struct LayerParameters {
  AlignedBuffer<float> weight;  // [out, in]; for a norm [width]
  AlignedBuffer<float> bias;    // [out]
};

/// Loads the weight and the bias of a part, which must be kept while a backend prepares them.
[[nodiscard]] LayerParameters load_parameters(const Checkpoint& checkpoint, Part part,
                                              std::int64_t layer = 0);
/// Return views of the weight and the bias.
[[nodiscard]] ops::LinearWeights linear_weights(const LayerParameters& parameters);
[[nodiscard]] ops::LayerNormWeights norm_weights(const LayerParameters& parameters);

/// Loads the linear layer at one of kCalibratedPlaces in layer `index`; for kQkv, query, key and
/// value are concatenated.
[[nodiscard]] LayerParameters load_layer(const Checkpoint& checkpoint, ops::Place place,
                                         std::int64_t index);

/// The weights of a layer. Norms are null if the backend's can_run accepts a linear layer with a
/// built-in norm: they are then part of that layer's weights.
struct LayerWeights {
  ops::TensorTypes types;  // types of the layer's activations
  ops::PreparedPtr norm1;
  ops::PreparedPtr qkv;
  ops::PreparedPtr out;
  ops::PreparedPtr norm2;
  ops::PreparedPtr fc1;
  ops::PreparedPtr fc2;
};

/// Throws fovea::Error with the reason if the backend cannot run an operator of the network.
template <typename Problem>
void require_support(const ops::Backend& backend, const Problem& problem) {
  if (const Support support = backend.can_run(problem); !support) {
    fail("{} cannot run this model: {}: {}", backend.description(), to_string(problem),
         support.why);
  }
}

/// The weights of all layers of the checkpoint's tower.
class TowerWeights {
 public:
  /// Loads and prepares every tensor of the layers, and runs `other_tasks`, all in parallel. Only
  /// the tensors that are being prepared are in memory as float32. 8-bit weights are read from the
  /// calibration.
  TowerWeights(const Checkpoint& checkpoint, ops::Backend& backend,
               std::vector<std::function<void()>> other_tasks);

  [[nodiscard]] const std::vector<LayerWeights>& layers() const { return layers_; }
  /// Returns notes for users on the calibration, separated by "; ": "the first 4 of 12 layers are
  /// in bf16", and "calibrated by PATH" if the file is not in the folder of the weights.
  [[nodiscard]] std::string calibration_words(const ops::Backend& backend) const;

 private:
  std::vector<LayerWeights> layers_;
  std::int64_t bf16_layers_ = 0;
  std::filesystem::path calibration_;  // empty if it is in the folder of the weights
};

}  // namespace fovea::model
