// The architecture of a vision tower: its tensors by name and shape, parameters, operations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor_view.hpp"
#include "model/config.hpp"

namespace fovea::model {

struct TensorSpec {
  std::string name;  // with the hub's prefix: "vision_model.head.probe"
  Shape shape;
};

/// Every tensor of the vision tower, in the order of the forward pass
/// (huggingface/transformers@1c51a62 models/siglip/modeling_siglip.py).
[[nodiscard]] std::vector<TensorSpec> vision_tensors(const VisionConfig& config);

/// The number of elements in all of vision_tensors.
[[nodiscard]] std::int64_t parameter_count(const VisionConfig& config);

/// Floating-point operations per image: twice the multiply-accumulates of the matrix products,
/// convolution and attention of the network as transformers computes it (no folds; norms,
/// softmax, activations and additions are not counted).
[[nodiscard]] double flop_per_image(const VisionConfig& config);

}  // namespace fovea::model
