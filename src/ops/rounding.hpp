// Rounding of weights to 8 bits, and folding of the pixels' normalisation into weights; the same on
// every device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/linear/op.hpp"
#include "ops/patch_embed/op.hpp"

namespace fovea::ops {

/// A linear layer with integer weights and inputs.
struct RoundedLinear {
  std::vector<std::int8_t> weight;  // [out, in]
  std::vector<float> scale;         // [out]: scale of a product's sums, including the input's scale
  std::vector<float> bias;          // [out]: corrected for the input's offset
  std::vector<std::int32_t> sum;    // [out]: sums of the weights
};

/// Returns the rounded weights from calibration if there are any; otherwise rounds the weights with
/// a scale per row that maps the row's largest magnitude to 127.
[[nodiscard]] RoundedLinear round_to_i8(const LinearWeights& weights);

/// The value subtracted from every pixel before a float product: the results, -128 to 127, are
/// exact even in bf16, and cause smaller rounding errors.
inline constexpr int kPixelCentre = 128;

/// The patch embedding for unnormalised pixels: the normalisation v * scale + shift of each channel
/// is folded into the weights and the position table.
struct FoldedPatchEmbed {
  DType pixels = DType::kU8;
  std::int64_t depth = 0;
  std::vector<float> weight;    // [hidden, depth], zero beyond patch_elements
  std::vector<float> no_bias;   // [hidden]
  std::vector<float> position;  // [tokens, hidden], with the bias and the product with the shift

  /// Returns views of the projection, valid during the lifetime of this object.
  [[nodiscard]] LinearWeights projection() const;
};

/// Folds the normalisation for products whose inputs are of type `pixels`: u8, with weights rounded
/// to i8, or a float type with kPixelCentre subtracted. Rows of weights have `depth` numbers.
[[nodiscard]] FoldedPatchEmbed fold_pixels(const PatchEmbedWeights& weights, DType pixels,
                                           std::int64_t depth);

}  // namespace fovea::ops
