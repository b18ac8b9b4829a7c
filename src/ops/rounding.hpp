// Weights in 8 bits, and the pixels' normalisation as part of the weights: the same on every
// device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/weights.hpp"

namespace fovea::ops {

/// A linear layer whose products are of integers.
struct RoundedLinear {
  std::vector<std::int8_t> weight;  // [out, in]
  std::vector<float> scale;         // [out]: of a product's sums, with the input's scale
  std::vector<float> bias;          // [out]: with what the input's offset adds
  std::vector<std::int32_t> sum;    // [out]: of the weights
};

/// Takes weights that calibration has rounded, and rounds others: the largest of a row becomes 127.
[[nodiscard]] RoundedLinear round_to_i8(const LinearWeights& weights);

/// v * scale + shift = (v - centre) * scale + (centre * scale + shift) for every channel.
struct FoldedPixels {
  std::vector<float> weight;     // [hidden, depth] times scale, zero beyond patch_elements
  std::vector<double> constant;  // [hidden]: bias, and the product with centre * scale + shift
};
[[nodiscard]] FoldedPixels fold_pixels(const PatchEmbedWeights& weights, double centre,
                                       std::int64_t depth);
/// The product of `rounded` takes v, not v - centre, and the weights that it has, not those it
/// should have: what that adds leaves the constant.
void uncentre(const RoundedLinear& rounded, double centre, std::span<double> constant);
/// position [tokens, hidden] + constant.
[[nodiscard]] std::vector<float> folded_position(const PatchEmbedWeights& weights,
                                                 std::span<const double> constant);

}  // namespace fovea::ops
