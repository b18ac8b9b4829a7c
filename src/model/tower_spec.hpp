// TowerSpec: the sizes of a tower, the properties of its layers, and the names of its tensors in
// files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor_view.hpp"
#include "ops/linear/op.hpp"

namespace fovea::model {

enum class Tower : std::uint8_t { kVision, kText };

/// The parts of a tower, independent of their names in files: a layer or norm with weight and bias,
/// or a single tensor.
enum class Part : std::uint8_t {
  // Before the layers.
  kPatchEmbed,
  kClassToken,
  kTokenTable,
  kPosition,
  // Parts of each layer.
  kNorm1,
  kQuery,
  kKey,
  kValue,
  kOut,
  kNorm2,
  kFc1,
  kFc2,
  // After the layers.
  kFinalNorm,
  kProbe,  // this and the next five exist only with Pooling::kAttention
  kPoolAttention,
  kPoolOut,
  kPoolNorm,
  kPoolFc1,
  kPoolFc2,
  kProjection,
  // The scale and the bias of image-text logits, [1] each.
  kLogitScale,
  kLogitBias,
};

/// The tensors of a part, and the suffixes that follow its stem.
enum class NameSuffix : std::uint8_t {
  kWeightAndBias,  // ".weight" and ".bias"
  kWeight,         // ".weight"
  kInProjection,   // "_weight" and "_bias", as in torch's nn.MultiheadAttention
  kNone,           // one tensor, whose name is the stem
};

/// The name of a part in files: "{}" in the stem stands for the layer number.
struct PartName {
  Part part;
  std::string_view stem;
  NameSuffix suffix = NameSuffix::kWeightAndBias;
  int leading_ones = 0;  // number of dimensions of size 1 before those of the weight
};

/// The tensors of a family's tower, in the order of the forward pass.
struct TensorNames {
  std::string_view prefix;  // prefix of all names except those of the logits: "vision_model."
  std::span<const PartName> parts;
};

struct TowerSpec {
  Tower tower = Tower::kVision;
  std::int64_t tokens = 0;  // per image or text
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  double layer_norm_eps = 0;
  ops::Epilogue activation = ops::Epilogue::kGeluTanh;
  const TensorNames* names = nullptr;

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// Returns the common prefix of the names of a part's tensors:
  /// "vision_model.encoder.layers.3.mlp.fc1".
  [[nodiscard]] std::string stem(Part part, std::int64_t layer = 0) const;
  /// Return the names of a part's tensors; "" if there is no bias.
  [[nodiscard]] std::string weight_name(Part part, std::int64_t layer = 0) const;
  [[nodiscard]] std::string bias_name(Part part, std::int64_t layer = 0) const;
};

/// A tensor in a file.
struct TensorSpec {
  std::string name;  // with the hub's prefix: "vision_model.head.probe"
  Shape shape;
  Tower tower = Tower::kVision;
  Part part = Part::kPatchEmbed;
  bool is_bias = false;
  std::int64_t layer = 0;
};

using Dims = std::vector<std::int64_t>;

/// Returns the tensors of a tower in the order of its names. `own` returns the dimensions of
/// weights that not all towers have, or nothing if this tower lacks the part.
[[nodiscard]] std::vector<TensorSpec> tower_tensors(const TowerSpec& tower,
                                                    const std::function<Dims(Part)>& own);

}  // namespace fovea::model
