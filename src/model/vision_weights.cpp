// Loads the patch embedding and the pooling head, and folds other parameters into them.
#include "model/vision_weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace fovea::model {
namespace {

using ops::LayerNormWeights;
using ops::PreparedPtr;

constexpr std::string_view kEmbeddings = "vision_model.embeddings.";
constexpr std::string_view kHead = "vision_model.head.";

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
  const LayerParameters conv =
      load_parameters(checkpoint, std::string(kEmbeddings) + "patch_embedding");
  // A NaFlex model's is a linear layer, whose inputs are in the order of patches already.
  const auto reordered = vision.naflex ? AlignedBuffer<float>()
                                       : channels_last(conv.weight, vision.hidden, vision.patch);
  const auto position = checkpoint.load(std::string(kEmbeddings) + "position_embedding.weight");
  ops::PatchEmbedWeights weights;
  weights.projection = linear_weights(conv);
  weights.projection.weight = vision.naflex ? conv.weight.span() : reordered.span();
  weights.position = position.span();
  weights.position_side = vision.naflex ? vision.grid() : 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double deviation = preprocessing.std[channel];
    weights.scale[channel] = preprocessing.rescale / deviation;
    weights.shift[channel] = -preprocessing.mean[channel] / deviation;
  }
  return backend.prepare(weights);
}

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

/// Whether the backend's pooling head normalises the tokens that it reads.
bool folds_post_norm(const VisionConfig& vision, const ops::Backend& backend) {
  return bool(backend.can_run(ops::PoolProblem{.images = 1,
                                               .tokens = vision.tokens(),
                                               .heads = vision.heads,
                                               .hidden = vision.hidden,
                                               .mlp = vision.mlp,
                                               .eps = vision.layer_norm_eps,
                                               .input = backend.types().stream,
                                               .norm = true,
                                               .varlen = vision.naflex,
                                               .total = 1}));
}

/// `post_norm`: empty where it is an operator of its own.
PreparedPtr prepare_pool(const Checkpoint& checkpoint, ops::Backend& backend,
                         const LayerNormWeights& post_norm) {
  const VisionConfig& vision = checkpoint.config().vision;
  const std::size_t hidden = count(vision.hidden);
  const std::string head(kHead);
  const auto probe = checkpoint.load(head + "probe");
  const auto in_weight = checkpoint.load(head + "attention.in_proj_weight");
  const auto in_bias = checkpoint.load(head + "attention.in_proj_bias");
  const auto key = fold_probe(probe.span(), in_weight.span(), in_bias.span(), vision);
  const LayerParameters out = load_parameters(checkpoint, head + "attention.out_proj");
  const LayerParameters norm = load_parameters(checkpoint, head + "layernorm");
  const LayerParameters fc1 = load_parameters(checkpoint, head + "mlp.fc1");
  const LayerParameters fc2 = load_parameters(checkpoint, head + "mlp.fc2");
  return backend.prepare(ops::PoolWeights{
      .heads = vision.heads,
      .key = key.span(),
      .input_norm = post_norm,
      .value = {.in = vision.hidden,
                .out = vision.hidden,
                .weight = in_weight.span().subspan(2 * hidden * hidden),
                .bias = in_bias.span().subspan(2 * hidden)},
      .out = linear_weights(out),
      .norm = norm_weights(norm),
      .fc1 = linear_weights(fc1),
      .fc2 = linear_weights(fc2),
  });
}

}  // namespace

VisionWeights::VisionWeights(const Checkpoint& checkpoint, ops::Backend& backend)
    : tower_(checkpoint, backend,
             {[&] { patch_embed = prepare_patch_embed(checkpoint, backend); },
              [&] {
                const LayerParameters norm =
                    load_parameters(checkpoint, "vision_model.post_layernorm");
                post_norm = backend.prepare(norm_weights(norm));
                const VisionConfig& vision = checkpoint.config().vision;
                if (vision.head) {
                  pool_has_norm = folds_post_norm(vision, backend);
                  pool = prepare_pool(checkpoint, backend,
                                      pool_has_norm ? norm_weights(norm) : LayerNormWeights{});
                }
              }}) {}

}  // namespace fovea::model
