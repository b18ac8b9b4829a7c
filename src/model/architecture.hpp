// The tensors of both towers by name and shape, their parameters and operations.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.hpp"
#include "model/tower_spec.hpp"

namespace fovea::model {

/// Every tensor of the vision tower, in the order of the forward pass.
[[nodiscard]] std::vector<TensorSpec> vision_tensors(const VisionConfig& config);
/// Every tensor of the text tower, and those of the image-text logits.
[[nodiscard]] std::vector<TensorSpec> text_tensors(const TextConfig& config);

/// The number of elements in all of vision_tensors.
[[nodiscard]] std::int64_t parameter_count(const VisionConfig& config);
/// The number of elements in all of text_tensors.
[[nodiscard]] std::int64_t parameter_count(const TextConfig& config);

/// Floating-point operations per image: twice the multiply-accumulates of the matrix products,
/// convolution and attention of the network as transformers computes it (without folding; norms,
/// softmax, activations and additions are not counted). For a NaFlex model: of its largest images.
[[nodiscard]] double flop_per_image(const VisionConfig& config);

}  // namespace fovea::model
