// The architecture of both towers: their tensors by name and shape, parameters, operations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor_view.hpp"
#include "model/config.hpp"

namespace fovea::model {

struct TensorSpec {
  std::string name;  // with the hub's prefix: "vision_model.head.probe"
  Shape shape;
};

/// How the names of a layer's tensors begin: "vision_model.encoder.layers.3.".
[[nodiscard]] std::string layer_prefix(const TowerConfig& tower, std::int64_t layer);

/// Every tensor of the vision tower, in the order of the forward pass
/// (huggingface/transformers@1c51a62 models/siglip/modeling_siglip.py, and of a NaFlex model
/// models/siglip2/modeling_siglip2.py, where the patch embedding is a linear layer).
[[nodiscard]] std::vector<TensorSpec> vision_tensors(const VisionConfig& config);

/// The scale and the bias of image-text logits, [1] each.
inline constexpr std::string_view kLogitScale = "logit_scale";
inline constexpr std::string_view kLogitBias = "logit_bias";
inline constexpr std::string_view kTokenTable = "text_model.embeddings.token_embedding.weight";

/// Every tensor of the text tower, in the order of the forward pass, and the two of the logits.
[[nodiscard]] std::vector<TensorSpec> text_tensors(const TextConfig& config);

/// The number of elements in all of vision_tensors.
[[nodiscard]] std::int64_t parameter_count(const VisionConfig& config);
/// The number of elements in all of text_tensors.
[[nodiscard]] std::int64_t parameter_count(const TextConfig& config);

/// Floating-point operations per image: twice the multiply-accumulates of the matrix products,
/// convolution and attention of the network as transformers computes it (no folds; norms,
/// softmax, activations and additions are not counted). Of a NaFlex model's largest images.
[[nodiscard]] double flop_per_image(const VisionConfig& config);
/// Likewise per text; looking tokens up is no operation.
[[nodiscard]] double flop_per_text(const TextConfig& config);

}  // namespace fovea::model
