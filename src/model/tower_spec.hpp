// TowerSpec: the sizes of a tower, what its layers compute, and what files call its tensors.
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

/// What tensors are to a tower, whatever files call them: the weight and the bias of a layer or a
/// norm, or a tensor alone.
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
  // Behind them.
  kFinalNorm,
  kProbe,  // this and the next five: Pooling::kAttention
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

/// Which tensors a part has, by what follows its stem.
enum class Ending : std::uint8_t {
  kWeightAndBias,  // ".weight" and ".bias"
  kWeight,         // ".weight"
  kInProjection,   // "_weight" and "_bias", as torch's nn.MultiheadAttention has them
  kNone,           // one tensor, of the stem's name
};

/// How files name a part: "{}" in the stem stands for the layer.
struct PartName {
  Part part;
  std::string_view stem;
  Ending ending = Ending::kWeightAndBias;
  int leading_ones = 0;  // dimensions of size 1 before those of the weight
};

/// The tensors of a family's tower, in the order of the forward pass.
struct TensorNames {
  std::string_view prefix;  // of all names but those of logits: "vision_model."
  std::span<const PartName> parts;
};

struct TowerSpec {
  Tower tower = Tower::kVision;
  std::int64_t tokens = 0;  // of an image or a text
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  double layer_norm_eps = 0;
  ops::Epilogue activation = ops::Epilogue::kGeluTanh;
  const TensorNames* names = nullptr;

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// What the names of a part's tensors begin with: "vision_model.encoder.layers.3.mlp.fc1".
  [[nodiscard]] std::string stem(Part part, std::int64_t layer = 0) const;
  /// The names of a part's tensors; there is no bias where it has none.
  [[nodiscard]] std::string weight_name(Part part, std::int64_t layer = 0) const;
  [[nodiscard]] std::string bias_name(Part part, std::int64_t layer = 0) const;
};

/// A tensor as files have it.
struct TensorSpec {
  std::string name;  // with the hub's prefix: "vision_model.head.probe"
  Shape shape;
  Tower tower = Tower::kVision;
  Part part = Part::kPatchEmbed;
  bool is_bias = false;
  std::int64_t layer = 0;
};

using Dims = std::vector<std::int64_t>;

/// The tensors of a tower in the order of its names. `own`: the dimensions of a weight that not all
/// towers have; none of a part that this one lacks.
[[nodiscard]] std::vector<TensorSpec> tensors_of(const TowerSpec& tower,
                                                 const std::function<Dims(Part)>& own);

}  // namespace fovea::model
