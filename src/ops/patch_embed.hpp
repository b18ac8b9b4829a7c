// The patch embedding: pixels of patches to tokens.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/address.hpp"
#include "core/dtype.hpp"
#include "core/support.hpp"

namespace fovea::ops {

/// Patches to tokens: normalise, project, add bias and position.
///   patches [images * tokens, patch_elements], channels innermost
///     -> [images * (prefix + tokens), hidden]
struct PatchEmbedProblem {
  std::int64_t images = 0;
  std::int64_t tokens = 0;          // N, patches an image
  std::int64_t patch_elements = 0;  // p * p * 3
  std::int64_t hidden = 0;
  /// Tokens before the patches of each image, such as a class token: rows of the weights.
  std::int64_t prefix = 0;
  DType input = DType::kU8;
  DType output = DType::kF32;
  /// Images of different sizes, one after the other, of `total` tokens together: `tokens` is the
  /// greatest number, and the position table a square with this many positions on a side, which is
  /// resized to the patches of each image. 0: all images are alike.
  std::int64_t position_side = 0;
  std::int64_t total = 0;

  [[nodiscard]] bool varlen() const { return position_side > 0; }
  /// Rows of the input.
  [[nodiscard]] std::int64_t patches() const { return varlen() ? total : images * tokens; }
  /// Rows of the output.
  [[nodiscard]] std::int64_t rows() const { return patches() + images * prefix; }

  friend auto operator<=>(const PatchEmbedProblem&, const PatchEmbedProblem&) = default;
};

/// Of patches that need no normalisation, and whose bias is in the position table; without prefix.
struct PatchEmbedOperands {
  Address patches = 0;
  Address weight = 0;    // (hidden, patch_elements), i8 for u8 patches, else of their type
  Address scale = 0;     // f32 (hidden) of i8 weights
  Address position = 0;  // (tokens, hidden) of the output's type
  Address output = 0;
};

[[nodiscard]] std::string to_string(const PatchEmbedProblem& problem);
/// Whether the problem makes sense on any device.
[[nodiscard]] Support valid(const PatchEmbedProblem& problem);

}  // namespace fovea::ops
