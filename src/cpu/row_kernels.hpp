// The vector kernels between the matrix products, compiled for every instruction set and chosen at
// run time. Each call uses one thread; callers split the rows.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace fovea::cpu {

/// LayerNorm of dense float32 [rows, width], written as float32, bfloat16, or i8 with a scale for
/// each row that maps its largest magnitude to 127.
struct LayerNormArgs {
  const float* input = nullptr;
  void* output = nullptr;  // may be `input` when float32
  DType output_type = DType::kF32;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* row_scale = nullptr;  // [rows], for i8 outputs
  std::int64_t rows = 0;
  std::int64_t width = 0;
  float eps = 0;
};
void layer_norm(const LayerNormArgs& args);

/// Computes exp(scale * (score - row maximum)) for scores in panels of at least 8 columns,
/// [panels][rows][columns], and the inverse of each row's sum. Row r has `widths[r]` scores; the
/// outputs beyond them are zero. The sums are of unrounded values, also for bf16 outputs.
struct ExpArgs {
  const float* scores = nullptr;
  std::int64_t panels = 0;
  std::int64_t columns = 0;
  std::int64_t panel_stride = 0;  // floats
  std::int64_t rows = 0;
  const std::int64_t* widths = nullptr;
  float scale = 1;
  /// Row r of panel p begins at p * output_panel_stride + r * output_row_stride, in bytes.
  void* output = nullptr;
  DType output_type = DType::kF32;
  std::int64_t output_panel_stride = 0;
  std::int64_t output_row_stride = 0;
  float* inverse_sums = nullptr;  // [rows]; 0 for a row without scores
};
void exp_rows(const ExpArgs& args);

/// output[i] = pixels[i] - ops::kPixelCentre as float32 or bfloat16.
void center_pixels(const std::uint8_t* pixels, std::int64_t count, void* output, DType output_type);

/// Computes for every head the scores of the tokens with its key, the softmax, and the weighted sum
/// of the tokens.
///   tokens [count, width], keys [heads, width] -> means [heads, width], rows mean_stride apart
/// `scores` is scratch for heads * count floats.
struct PoolTokensArgs {
  const float* tokens = nullptr;
  const float* keys = nullptr;
  float* means = nullptr;
  std::int64_t mean_stride = 0;
  float* scores = nullptr;
  std::int64_t count = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
};
void pool_tokens(const PoolTokensArgs& args);

}  // namespace fovea::cpu
