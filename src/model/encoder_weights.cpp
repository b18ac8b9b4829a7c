// The vision tower's weights from the checkpoint, and what is folded into them.
#include "model/encoder_weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "model/calibration.hpp"
#include "model/storage.hpp"

namespace fovea::model {
namespace {

using ops::LayerNormWeights;
using ops::LinearWeights;
using ops::PreparedPtr;
using ops::Stored;

constexpr std::string_view kEmbeddings = "vision_model.embeddings.";
constexpr std::string_view kHead = "vision_model.head.";

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// Loads "<name>.weight" and "<name>.bias", and holds them while a backend prepares them.
struct Parameters {
  AlignedBuffer<float> weight;
  AlignedBuffer<float> bias;

  Parameters(const Checkpoint& checkpoint, const std::string& name)
      : weight(checkpoint.load(name + ".weight")), bias(checkpoint.load(name + ".bias")) {}
  Parameters(AlignedBuffer<float> some_weight, AlignedBuffer<float> some_bias)
      : weight(std::move(some_weight)), bias(std::move(some_bias)) {}

  [[nodiscard]] LinearWeights linear() const {
    const auto out = static_cast<std::int64_t>(bias.size());
    return {.in = static_cast<std::int64_t>(weight.size()) / out,
            .out = out,
            .weight = weight.span(),
            .bias = bias.span()};
  }
  [[nodiscard]] LayerNormWeights norm() const {
    return {.weight = weight.span(), .bias = bias.span()};
  }
};

/// The convolution's weight [hidden, 3, p, p] in the order of patches, [hidden, p, p, 3].
AlignedBuffer<float> channels_last(const AlignedBuffer<float>& weight, std::int64_t hidden,
                                   std::int64_t patch) {
  AlignedBuffer<float> out(weight.size());
  const std::size_t area = count(patch * patch);
  for (std::size_t o = 0; o < count(hidden); ++o) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t i = 0; i < area; ++i) {
        out[(o * area + i) * 3 + channel] = weight[(o * 3 + channel) * area + i];
      }
    }
  }
  return out;
}

PreparedPtr prepare_patch_embed(const Checkpoint& checkpoint, ops::Backend& backend) {
  const VisionConfig& vision = checkpoint.config().vision;
  const Preprocessing& preprocessing = checkpoint.config().preprocessing;
  const Parameters conv(checkpoint, std::string(kEmbeddings) + "patch_embedding");
  const auto weight = channels_last(conv.weight, vision.hidden, vision.patch);
  const auto position = checkpoint.load(std::string(kEmbeddings) + "position_embedding.weight");
  ops::PatchEmbedWeights weights;
  weights.projection = conv.linear();
  weights.projection.weight = weight.span();
  weights.position = position.span();
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double deviation = preprocessing.std[channel];
    weights.scale[channel] = preprocessing.rescale / deviation;
    weights.shift[channel] = -preprocessing.mean[channel] / deviation;
  }
  return backend.prepare(weights);
}

/// What a norm adds to every row, b, goes on to the layer after it where the norm's output is
/// narrow: W (x + b) + c = W x + (W b + c). So the few bits hold only what differs.
void move_bias(std::span<const float> from, const AlignedBuffer<float>& weight,
               AlignedBuffer<float>& bias) {
  for (std::size_t o = 0; o < bias.size(); ++o) {
    double sum = bias[o];
    for (std::size_t i = 0; i < from.size(); ++i) {
      sum += static_cast<double>(weight[o * from.size() + i]) * from[i];
    }
    bias[o] = static_cast<float>(sum);
  }
}

/// One layer of the tower.
class LayerLoader {
 public:
  LayerLoader(const Checkpoint& checkpoint, ops::Backend& backend, std::int64_t layer,
              const LayerStorage& storage)
      : checkpoint_(checkpoint),
        backend_(backend),
        prefix_(fmt::format("vision_model.encoder.layers.{}.", layer)),
        storage_(storage) {}

  [[nodiscard]] PreparedPtr norm(const char* name, const Stored& output) const {
    Parameters norm(checkpoint_, prefix_ + name);
    if (is_narrow(output.type)) {
      for (float& weight : norm.weight.span()) {
        weight /= output.scale;
      }
      std::ranges::fill(norm.bias.span(), 0.0F);
    }
    return backend_.prepare(norm.norm());
  }

  /// q_proj, k_proj and v_proj as one layer of [3 * hidden, hidden].
  [[nodiscard]] PreparedPtr qkv() const {
    const std::size_t hidden = count(checkpoint_.config().vision.hidden);
    Parameters all(AlignedBuffer<float>(3 * hidden * hidden), AlignedBuffer<float>(3 * hidden));
    std::size_t part = 0;
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      const Parameters one(checkpoint_, prefix_ + "self_attn." + name);
      std::ranges::copy(one.weight.span(), all.weight.data() + part * hidden * hidden);
      std::ranges::copy(one.bias.span(), all.bias.data() + part * hidden);
      ++part;
    }
    take_norm_bias("layer_norm1", storage_.normed1, all);
    if (is_narrow(storage_.attended.type)) {
      // Attention averages V's rows: scaled and without their bias, they give what is stored.
      for (float& weight : all.weight.span().subspan(2 * hidden * hidden)) {
        weight /= storage_.attended.scale;
      }
      std::ranges::fill(all.bias.span().subspan(2 * hidden), 0.0F);
    }
    LinearWeights weights = all.linear();
    weights.input = storage_.normed1;
    weights.output = {.type = storage_.qkv};
    return backend_.prepare(weights);
  }

  [[nodiscard]] PreparedPtr out() const {
    Parameters out(checkpoint_, prefix_ + "self_attn.out_proj");
    if (is_narrow(storage_.attended.type)) {
      Parameters value(checkpoint_, prefix_ + "self_attn.v_proj");
      take_norm_bias("layer_norm1", storage_.normed1, value);
      move_bias(value.bias.span(), out.weight, out.bias);
    }
    return linear(out, storage_.attended, {.type = storage_.stream});
  }

  [[nodiscard]] PreparedPtr fc1() const {
    Parameters fc1(checkpoint_, prefix_ + "mlp.fc1");
    take_norm_bias("layer_norm2", storage_.normed2, fc1);
    return linear(fc1, storage_.normed2, storage_.inner);
  }

  [[nodiscard]] PreparedPtr fc2() const {
    return linear(Parameters(checkpoint_, prefix_ + "mlp.fc2"), storage_.inner,
                  {.type = storage_.stream});
  }

 private:
  void take_norm_bias(const char* norm, const Stored& normed, Parameters& layer) const {
    if (is_narrow(normed.type)) {
      move_bias(checkpoint_.load(prefix_ + norm + ".bias").span(), layer.weight, layer.bias);
    }
  }
  [[nodiscard]] PreparedPtr linear(const Parameters& parameters, const Stored& input,
                                   const Stored& output) const {
    LinearWeights weights = parameters.linear();
    weights.input = input;
    weights.output = output;
    return backend_.prepare(weights);
  }

  const Checkpoint& checkpoint_;
  ops::Backend& backend_;
  std::string prefix_;
  const LayerStorage& storage_;
};

/// Folds the probe's query into the keys: head i's score of token x is x . key[i] with
/// key[i] = scale * Wk_i^T q_i. K's bias adds the same to all scores of a head and cancels.
AlignedBuffer<float> fold_probe(std::span<const float> probe, std::span<const float> in_weight,
                                std::span<const float> in_bias, const VisionConfig& vision) {
  const std::size_t hidden = count(vision.hidden);
  const std::size_t head_dim = count(vision.head_dim());
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  AlignedBuffer<float> key(count(vision.heads) * hidden);
  std::vector<double> sum(hidden);
  for (std::size_t head = 0; head < count(vision.heads); ++head) {
    std::ranges::fill(sum, 0.0);
    for (std::size_t row = head * head_dim; row < (head + 1) * head_dim; ++row) {
      double query = in_bias[row];
      for (std::size_t i = 0; i < hidden; ++i) {
        query += static_cast<double>(in_weight[row * hidden + i]) * probe[i];
      }
      const auto wk = in_weight.subspan((hidden + row) * hidden, hidden);
      for (std::size_t i = 0; i < hidden; ++i) {
        sum[i] += scale * query * wk[i];
      }
    }
    std::ranges::transform(sum, key.data() + head * hidden,
                           [](double value) { return static_cast<float>(value); });
  }
  return key;
}

PreparedPtr prepare_pool(const Checkpoint& checkpoint, ops::Backend& backend) {
  const VisionConfig& vision = checkpoint.config().vision;
  const std::size_t hidden = count(vision.hidden);
  const std::string head(kHead);
  const auto probe = checkpoint.load(head + "probe");
  const auto in_weight = checkpoint.load(head + "attention.in_proj_weight");
  const auto in_bias = checkpoint.load(head + "attention.in_proj_bias");
  const auto key = fold_probe(probe.span(), in_weight.span(), in_bias.span(), vision);
  const Parameters out(checkpoint, head + "attention.out_proj");
  const Parameters norm(checkpoint, head + "layernorm");
  const Parameters fc1(checkpoint, head + "mlp.fc1");
  const Parameters fc2(checkpoint, head + "mlp.fc2");
  return backend.prepare(ops::PoolWeights{
      .heads = vision.heads,
      .key = key.span(),
      .value = {.in = vision.hidden,
                .out = vision.hidden,
                .weight = in_weight.span().subspan(2 * hidden * hidden),
                .bias = in_bias.span().subspan(2 * hidden)},
      .out = out.linear(),
      .norm = norm.norm(),
      .fc1 = fc1.linear(),
      .fc2 = fc2.linear(),
  });
}

}  // namespace

EncoderWeights::EncoderWeights(const Checkpoint& checkpoint, ops::Backend& backend)
    : layers(count(checkpoint.config().vision.layers)) {
  const std::vector<LayerStorage> storage = plan_storage(checkpoint, backend);
  std::vector<std::function<void()>> tasks;
  tasks.emplace_back([&] { pool = prepare_pool(checkpoint, backend); });
  tasks.emplace_back([&] { patch_embed = prepare_patch_embed(checkpoint, backend); });
  tasks.emplace_back([&] {
    post_norm = backend.prepare(Parameters(checkpoint, "vision_model.post_layernorm").norm());
  });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    const LayerStorage& how = storage[i];
    const LayerLoader loader(checkpoint, backend, static_cast<std::int64_t>(i), how);
    tasks.emplace_back(
        [=, &layer, &how] { layer.norm1 = loader.norm("layer_norm1", how.normed1); });
    tasks.emplace_back([=, &layer] { layer.qkv = loader.qkv(); });
    tasks.emplace_back([=, &layer] { layer.out = loader.out(); });
    tasks.emplace_back(
        [=, &layer, &how] { layer.norm2 = loader.norm("layer_norm2", how.normed2); });
    tasks.emplace_back([=, &layer] { layer.fc1 = loader.fc1(); });
    tasks.emplace_back([=, &layer] { layer.fc2 = loader.fc2(); });
  }
  backend.for_each(tasks.size(), [&](std::size_t index) { tasks[index](); });
}

}  // namespace fovea::model
