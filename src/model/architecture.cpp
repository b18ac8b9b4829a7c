// Tensors, parameters and operations of towers.
#include "model/architecture.hpp"

#include "model/config.hpp"

namespace fovea::model {
namespace {

std::int64_t element_count(const std::vector<TensorSpec>& tensors) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    count += tensor.shape.elements();
  }
  return count;
}

/// Number of multiply-accumulates of all layers for one image.
double layer_products(const TowerSpec& tower) {
  const auto n = static_cast<double>(tower.tokens);
  const auto h = static_cast<double>(tower.hidden);
  const auto m = static_cast<double>(tower.mlp);
  const double projections = n * (4 * h * h + 2 * h * m);
  const double attention = 2 * n * n * h;  // QK^T and PV over all heads
  return static_cast<double>(tower.layers) * (projections + attention);
}

/// The dimensions of a weight of the pooling head; empty for other parts.
Dims pool_dims(const VisionConfig& config, Part part) {
  const std::int64_t h = config.hidden;
  switch (part) {
    case Part::kProbe:
    case Part::kPoolNorm:
      return {h};
    case Part::kPoolAttention:
      return {3 * h, h};
    case Part::kPoolOut:
      return {h, h};
    case Part::kPoolFc1:
      return {config.mlp, h};
    case Part::kPoolFc2:
      return {h, config.mlp};
    default:
      return {};
  }
}

}  // namespace

std::vector<TensorSpec> vision_tensors(const VisionConfig& config) {
  const std::int64_t h = config.hidden;
  return tower_tensors(config.tower(), [&](Part part) -> Dims {
    switch (part) {
      case Part::kPatchEmbed:
        return config.naflex ? Dims{h, config.patch_elements()}
                             : Dims{h, 3, config.patch, config.patch};
      case Part::kClassToken:
        return {h};
      case Part::kPosition:
        return {config.prefix_tokens + config.patches(), h};
      default:
        return config.pooling == Pooling::kAttention ? pool_dims(config, part) : Dims();
    }
  });
}

std::vector<TensorSpec> text_tensors(const TextConfig& config) {
  return tower_tensors(config.tower(), [&](Part part) -> Dims {
    switch (part) {
      case Part::kTokenTable:
        return {config.vocabulary, config.hidden};
      case Part::kPosition:
        return {config.tokens, config.hidden};
      case Part::kProjection:
        return {config.projection, config.hidden};
      case Part::kLogitScale:
      case Part::kLogitBias:
        return {1};
      default:
        return {};
    }
  });
}

std::int64_t parameter_count(const VisionConfig& config) {
  return element_count(vision_tensors(config));
}

std::int64_t parameter_count(const TextConfig& config) {
  return element_count(text_tensors(config));
}

double flop_per_image(const VisionConfig& config) {
  const auto n = static_cast<double>(config.tokens());
  const auto h = static_cast<double>(config.hidden);
  const auto m = static_cast<double>(config.mlp);
  const double patch_embedding = static_cast<double>(config.tokens() - config.prefix_tokens) *
                                 static_cast<double>(config.patch_elements()) * h;
  // The pooling head has one query: Q and output projection once, K and V for every token, the MLP
  // once.
  const double head =
      config.pooling == Pooling::kAttention ? 2 * h * h + 2 * n * h * h + 2 * n * h + 2 * h * m : 0;
  return 2 * (patch_embedding + layer_products(config.tower()) + head);
}

}  // namespace fovea::model
