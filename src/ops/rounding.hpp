// Weights in 8 bits, and the pixels' normalisation as part of the weights: the same on every
// device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/linear/op.hpp"
#include "ops/patch_embed/op.hpp"

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

/// What a float product takes from every pixel: the results, -128 to 127, are exact in bf16 too,
/// and products of them round less.
inline constexpr int kPixelCentre = 128;

/// The patch embedding of pixels as they are stored: v * scale + shift, the same for every pixel of
/// a channel, is part of the weights and of the position table.
struct FoldedPatchEmbed {
  DType pixels = DType::kU8;
  std::int64_t depth = 0;
  std::vector<float> weight;    // [hidden, depth], zero beyond patch_elements
  std::vector<float> no_bias;   // [hidden]
  std::vector<float> position;  // [tokens, hidden], with the bias and what the shift adds

  /// The projection, whose numbers live as long as this does.
  [[nodiscard]] LinearWeights projection() const;
};

/// Folds for products that take `pixels`: u8 as they are, with weights that are rounded to i8, or
/// any float type of pixels less kPixelCentre. Rows of weights have `depth` numbers.
[[nodiscard]] FoldedPatchEmbed fold_pixels(const PatchEmbedWeights& weights, DType pixels,
                                           std::int64_t depth);

}  // namespace fovea::ops
