// Rounds weights to 8 bits and folds constants; sums are computed in double.
#include "ops/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace fovea::ops {
namespace {

constexpr float kI8Max = 127.0F;

float max_magnitude(std::span<const float> row) {
  float magnitude = 0;
  for (const float value : row) {
    magnitude = std::max(magnitude, std::abs(value));
  }
  return magnitude;
}

std::int8_t to_i8(float value) {
  return static_cast<std::int8_t>(std::lrint(std::clamp(value, -kI8Max, kI8Max)));
}

}  // namespace

RoundedLinear round_to_i8(const LinearWeights& weights) {
  const auto in = static_cast<std::size_t>(weights.in);
  const auto out = static_cast<std::size_t>(weights.out);
  RoundedLinear rounded;
  rounded.weight.resize(in * out);
  rounded.scale.resize(out);
  rounded.bias.assign(weights.bias.begin(), weights.bias.end());
  rounded.sum.resize(out);
  for (std::size_t o = 0; o < out; ++o) {
    std::int8_t* const stored = rounded.weight.data() + o * in;
    float scale = 1.0F;
    if (!weights.rounded.empty()) {
      std::ranges::transform(weights.rounded.subspan(o * in, in), stored,
                             [](std::uint8_t bits) { return static_cast<std::int8_t>(bits); });
      scale = weights.rounded_scale[o];
    } else {
      const auto row = weights.weight.subspan(o * in, in);
      const float peak = max_magnitude(row);
      scale = peak > 0 ? peak / kI8Max : 1.0F;
      const float inverse = 1.0F / scale;
      std::ranges::transform(row, stored, [&](float value) { return to_i8(value * inverse); });
    }
    for (std::size_t i = 0; i < in; ++i) {
      rounded.sum[o] += stored[i];
    }
    rounded.scale[o] = scale * weights.input.scale;
    if (weights.input.offset != 0) {  // the product uses the stored numbers, without the offset
      rounded.bias[o] += static_cast<float>(
          double{rounded.scale[o]} *
          static_cast<double>(std::int64_t{weights.input.offset} * rounded.sum[o]));
    }
  }
  return rounded;
}

LinearWeights FoldedPatchEmbed::projection() const {
  return {.in = depth,
          .out = static_cast<std::int64_t>(no_bias.size()),
          .weight = weight,
          .bias = no_bias,
          .input = {.type = pixels}};
}

FoldedPatchEmbed fold_pixels(const PatchEmbedWeights& weights, DType pixels, std::int64_t depth) {
  constexpr double kMiddle = 127.5;  // the middle of the pixels' range
  const auto in = static_cast<std::size_t>(weights.projection.in);
  const auto out = static_cast<std::size_t>(weights.projection.out);
  const auto row = static_cast<std::size_t>(depth);
  const bool bytes = pixels == DType::kU8;
  const double centre = bytes ? kMiddle : kPixelCentre;
  FoldedPatchEmbed folded{.pixels = pixels,
                          .depth = depth,
                          .weight = std::vector<float>(row * out),
                          .no_bias = std::vector<float>(out),
                          .position = std::vector<float>(weights.position.size())};
  // Adds the bias, and the product of the weights with centre * scale + shift: v * scale + shift =
  // (v - centre) * scale + (centre * scale + shift).
  std::vector<double> constant(out);
  for (std::size_t o = 0; o < out; ++o) {
    constant[o] = weights.projection.bias[o];
    for (std::size_t i = 0; i < in; ++i) {
      const double weight = weights.projection.weight[o * in + i];
      const double scale = weights.scale[i % 3];
      folded.weight[o * row + i] = static_cast<float>(weight * scale);
      constant[o] += weight * (centre * scale + weights.shift[i % 3]);
    }
  }
  if (bytes) {
    // The product uses v instead of v - centre, and rounded weights: subtracts centre times their
    // sum.
    const RoundedLinear rounded = round_to_i8(folded.projection());
    for (std::size_t o = 0; o < out; ++o) {
      constant[o] -= centre * rounded.sum[o] * rounded.scale[o];
    }
  }
  for (std::size_t i = 0; i < folded.position.size(); ++i) {
    folded.position[i] = static_cast<float>(weights.position[i] + constant[i % out]);
  }
  return folded;
}

}  // namespace fovea::ops
