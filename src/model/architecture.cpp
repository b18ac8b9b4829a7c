// The tensor inventories of SigLIP's towers.
#include "model/architecture.hpp"

#include <utility>

#include <fmt/format.h>

namespace fovea::model {
namespace {

class Inventory {
 public:
  void add(std::string name, Shape shape) {
    tensors_.push_back({.name = std::move(name), .shape = std::move(shape)});
  }
  void norm(const std::string& name, std::int64_t size) {
    add(name + ".weight", {size});
    add(name + ".bias", {size});
  }
  void linear(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    add(name + ".weight", {outputs, inputs});
    add(name + ".bias", {outputs});
  }
  /// Those of all layers.
  void layers(const TowerConfig& tower) {
    const std::int64_t h = tower.hidden;
    for (std::int64_t layer = 0; layer < tower.layers; ++layer) {
      const std::string prefix = layer_prefix(tower, layer);
      norm(prefix + "layer_norm1", h);
      for (const char* projection : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
        linear(prefix + "self_attn." + projection, h, h);
      }
      norm(prefix + "layer_norm2", h);
      linear(prefix + "mlp.fc1", tower.mlp, h);
      linear(prefix + "mlp.fc2", h, tower.mlp);
    }
  }
  std::vector<TensorSpec> take() { return std::move(tensors_); }

 private:
  std::vector<TensorSpec> tensors_;
};

std::int64_t elements_of(const std::vector<TensorSpec>& tensors) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    count += tensor.shape.elements();
  }
  return count;
}

/// Multiply-accumulates of all layers for one image or text.
double layer_products(const TowerConfig& tower) {
  const auto n = static_cast<double>(tower.tokens);
  const auto h = static_cast<double>(tower.hidden);
  const auto m = static_cast<double>(tower.mlp);
  const double projections = n * (4 * h * h + 2 * h * m);
  const double attention = 2 * n * n * h;  // QK^T and PV over all heads
  return static_cast<double>(tower.layers) * (projections + attention);
}

}  // namespace

std::string layer_prefix(const TowerConfig& tower, std::int64_t layer) {
  return fmt::format("{}encoder.layers.{}.", tower.prefix(), layer);
}

std::vector<TensorSpec> vision_tensors(const VisionConfig& config) {
  const std::int64_t h = config.hidden;
  Inventory inventory;
  const std::string embeddings = "vision_model.embeddings.";
  inventory.add(
      embeddings + "patch_embedding.weight",
      config.naflex ? Shape{h, config.patch_elements()} : Shape{h, 3, config.patch, config.patch});
  inventory.add(embeddings + "patch_embedding.bias", {h});
  inventory.add(embeddings + "position_embedding.weight", {config.patches(), h});
  inventory.layers(config.tower());
  inventory.norm("vision_model.post_layernorm", h);
  if (!config.head) {
    return inventory.take();
  }
  const std::string head = "vision_model.head.";
  inventory.add(head + "probe", {1, 1, h});
  inventory.add(head + "attention.in_proj_weight", {3 * h, h});
  inventory.add(head + "attention.in_proj_bias", {3 * h});
  inventory.linear(head + "attention.out_proj", h, h);
  inventory.norm(head + "layernorm", h);
  inventory.linear(head + "mlp.fc1", config.mlp, h);
  inventory.linear(head + "mlp.fc2", h, config.mlp);
  return inventory.take();
}

std::vector<TensorSpec> text_tensors(const TextConfig& config) {
  const std::int64_t h = config.hidden;
  Inventory inventory;
  inventory.add(std::string(kTokenTable), {config.vocabulary, h});
  inventory.add("text_model.embeddings.position_embedding.weight", {config.tokens, h});
  inventory.layers(config.tower());
  inventory.norm("text_model.final_layer_norm", h);
  inventory.linear("text_model.head", config.projection, h);
  inventory.add(std::string(kLogitScale), {1});
  inventory.add(std::string(kLogitBias), {1});
  return inventory.take();
}

std::int64_t parameter_count(const VisionConfig& config) {
  return elements_of(vision_tensors(config));
}

std::int64_t parameter_count(const TextConfig& config) {
  return elements_of(text_tensors(config));
}

double flop_per_image(const VisionConfig& config) {
  const auto n = static_cast<double>(config.tokens());
  const auto h = static_cast<double>(config.hidden);
  const auto m = static_cast<double>(config.mlp);
  const double patch_embedding = n * static_cast<double>(config.patch_elements()) * h;
  // One query: Q and output projection once, K and V for every token, then the MLP once.
  const double head = config.head ? 2 * h * h + 2 * n * h * h + 2 * n * h + 2 * h * m : 0;
  return 2 * (patch_embedding + layer_products(config.tower()) + head);
}

double flop_per_text(const TextConfig& config) {
  const auto h = static_cast<double>(config.hidden);
  return 2 * (layer_products(config.tower()) + h * static_cast<double>(config.projection));
}

}  // namespace fovea::model
