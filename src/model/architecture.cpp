// The tensor inventory of a SigLIP vision tower.
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
  std::vector<TensorSpec> take() { return std::move(tensors_); }

 private:
  std::vector<TensorSpec> tensors_;
};

}  // namespace

std::vector<TensorSpec> vision_tensors(const VisionConfig& config) {
  const std::int64_t h = config.hidden;
  Inventory inventory;
  const std::string embeddings = "vision_model.embeddings.";
  inventory.add(embeddings + "patch_embedding.weight", {h, 3, config.patch, config.patch});
  inventory.add(embeddings + "patch_embedding.bias", {h});
  inventory.add(embeddings + "position_embedding.weight", {config.patches(), h});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("vision_model.encoder.layers.{}.", layer);
    inventory.norm(prefix + "layer_norm1", h);
    for (const char* projection : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      inventory.linear(prefix + "self_attn." + projection, h, h);
    }
    inventory.norm(prefix + "layer_norm2", h);
    inventory.linear(prefix + "mlp.fc1", config.mlp, h);
    inventory.linear(prefix + "mlp.fc2", h, config.mlp);
  }
  inventory.norm("vision_model.post_layernorm", h);
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

std::int64_t parameter_count(const VisionConfig& config) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : vision_tensors(config)) {
    count += tensor.shape.elements();
  }
  return count;
}

double flop_per_image(const VisionConfig& config) {
  const auto n = static_cast<double>(config.patches());
  const auto h = static_cast<double>(config.hidden);
  const auto m = static_cast<double>(config.mlp);
  const double patch_embedding = n * static_cast<double>(config.patch_elements()) * h;
  const double projections = n * (4 * h * h + 2 * h * m);
  const double attention = 2 * n * n * h;  // QK^T and PV over all heads
  // One query: Q and output projection once, K and V for every token, then the MLP once.
  const double head = 2 * h * h + 2 * n * h * h + 2 * n * h + 2 * h * m;
  return 2 *
         (patch_embedding + static_cast<double>(config.layers) * (projections + attention) + head);
}

}  // namespace fovea::model
