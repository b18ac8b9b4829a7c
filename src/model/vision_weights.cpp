// Loads the patch embedding and the pooling head, and folds other parameters into them.
#include "model/vision_weights.hpp"

#include <algorithm>
#include <cmath>

namespace fovea::model {
namespace {

using ops::LayerNormWeights;
using ops::PreparedPtr;

/// Transposes the convolution's weight [hidden, 3, p, p] to the order of patches, [hidden, p, p,
/// 3].
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

/// Returns the prefix tokens plus their positions, which are the first rows of the position table.
AlignedBuffer<float> prefix_tokens(const Checkpoint& checkpoint, std::span<const float> position) {
  if (checkpoint.config().vision.prefix_tokens == 0) {
    return {};
  }
  AlignedBuffer<float> tokens = checkpoint.load(checkpoint.tower().weight_name(Part::kClassToken));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] += position[i];
  }
  return tokens;
}

PreparedPtr prepare_patch_embed(const Checkpoint& checkpoint, ops::Backend& backend) {
  const VisionConfig& vision = checkpoint.config().vision;
  require_support(backend, patch_embed_problem(vision, backend.types().stream, 1, vision.tokens()));
  const Preprocessing& preprocessing = checkpoint.config().preprocessing;
  const LayerParameters conv = load_parameters(checkpoint, Part::kPatchEmbed);
  // The patch embedding of a NaFlex model is a linear layer, whose inputs are already in the order
  // of patches.
  const auto reordered = vision.naflex ? AlignedBuffer<float>()
                                       : channels_last(conv.weight, vision.hidden, vision.patch);
  const TowerSpec tower = checkpoint.tower();
  const auto position = checkpoint.load(tower.weight_name(Part::kPosition));
  const auto prefix = prefix_tokens(checkpoint, position.span());
  ops::PatchEmbedWeights weights;
  weights.projection = linear_weights(conv);
  weights.projection.weight = vision.naflex ? conv.weight.span() : reordered.span();
  weights.position = position.span().subspan(prefix.size());
  weights.prefix = prefix.span();
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

/// Whether the backend's pooling head can include the norm of its tokens.
bool folds_post_norm(const VisionConfig& vision, const ops::Backend& backend) {
  ops::PoolProblem problem = pool_problem(vision, backend.types().stream, 1, 1);
  problem.norm = true;
  return bool(backend.can_run(problem));
}

/// `post_norm` is empty if that norm is a separate operator.
PreparedPtr prepare_pool(const Checkpoint& checkpoint, ops::Backend& backend,
                         const LayerNormWeights& post_norm) {
  const VisionConfig& vision = checkpoint.config().vision;
  const std::size_t hidden = count(vision.hidden);
  const auto probe = checkpoint.load(checkpoint.tower().weight_name(Part::kProbe));
  const LayerParameters in = load_parameters(checkpoint, Part::kPoolAttention);
  const auto key = fold_probe(probe.span(), in.weight.span(), in.bias.span(), vision);
  const LayerParameters out = load_parameters(checkpoint, Part::kPoolOut);
  const LayerParameters norm = load_parameters(checkpoint, Part::kPoolNorm);
  const LayerParameters fc1 = load_parameters(checkpoint, Part::kPoolFc1);
  const LayerParameters fc2 = load_parameters(checkpoint, Part::kPoolFc2);
  return backend.prepare(ops::PoolWeights{
      .heads = vision.heads,
      .key = key.span(),
      .input_norm = post_norm,
      .value = {.in = vision.hidden,
                .out = vision.hidden,
                .weight = in.weight.span().subspan(2 * hidden * hidden),
                .bias = in.bias.span().subspan(2 * hidden)},
      .out = linear_weights(out),
      .norm = norm_weights(norm),
      .fc1 = linear_weights(fc1),
      .fc2 = linear_weights(fc2),
  });
}

}  // namespace

ops::PatchEmbedProblem patch_embed_problem(const VisionConfig& vision, DType stream,
                                           std::int64_t images, std::int64_t total) {
  return {.images = images,
          .tokens = vision.tokens() - vision.prefix_tokens,
          .patch_elements = vision.patch_elements(),
          .hidden = vision.hidden,
          .prefix = vision.prefix_tokens,
          .output = stream,
          .position_side = vision.naflex ? vision.grid() : 0,
          .total = total};
}

ops::PoolProblem pool_problem(const VisionConfig& vision, DType stream, std::int64_t images,
                              std::int64_t total) {
  return {.images = images,
          .tokens = vision.tokens(),
          .heads = vision.heads,
          .hidden = vision.hidden,
          .mlp = vision.mlp,
          .eps = vision.layer_norm_eps,
          .input = stream,
          .varlen = vision.naflex,
          .total = total};
}

ops::ProjectProblem token_problem(const VisionConfig& vision, DType stream, std::int64_t images) {
  return {.sequences = images,
          .tokens = vision.tokens(),
          .hidden = vision.hidden,
          .out = vision.hidden,
          .projected = false,
          .eps = vision.layer_norm_eps,
          .input = stream};
}

VisionWeights::VisionWeights(const Checkpoint& checkpoint, ops::Backend& backend)
    : tower_(checkpoint, backend,
             {[&] { patch_embed = prepare_patch_embed(checkpoint, backend); },
              [&] {
                const LayerParameters norm = load_parameters(checkpoint, Part::kFinalNorm);
                post_norm = backend.prepare(norm_weights(norm));
                const VisionConfig& vision = checkpoint.config().vision;
                if (vision.pooling == Pooling::kAttention) {
                  pool_has_norm = folds_post_norm(vision, backend);
                  pool = prepare_pool(checkpoint, backend,
                                      pool_has_norm ? norm_weights(norm) : LayerNormWeights{});
                } else if (vision.pooling == Pooling::kToken) {
                  require_support(backend, token_problem(vision, backend.types().stream, 1));
                  pool = backend.prepare(ops::ProjectWeights{.norm = norm_weights(norm)});
                }
              }}) {}

}  // namespace fovea::model
