// The vector kernels between the matrix products, compiled for every instruction set and chosen
// at run time. One thread each; callers split the rows.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace fovea::cpu {

/// Rows of float32 [rows, width], dense -> the same shape as float32 or bfloat16.
struct LayerNormArgs {
  const float* input = nullptr;
  void* output = nullptr;  // may be `input` when float32
  DType output_type = DType::kF32;
  const float* weight = nullptr;
  const float* bias = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  float eps = 0;
};
void layer_norm(const LayerNormArgs& args);

/// softmax(scale * scores) along each row, in place: float32 [rows, width] with rows `stride`
/// floats apart. As bfloat16, a row's probabilities take the first half of its memory.
struct SoftmaxArgs {
  float* scores = nullptr;
  DType output_type = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;
  float scale = 1;
};
void softmax(const SoftmaxArgs& args);

/// Value that `center_pixels` takes from every byte: the results, -128 to 127, are exact in
/// bfloat16 too, and matrix products of centered pixels round less.
inline constexpr int kPixelCenter = 128;

/// output[i] = pixels[i] - kPixelCenter as float32 or bfloat16.
void center_pixels(const std::uint8_t* pixels, std::int64_t count, void* output, DType output_type);

/// to[i] += from[i].
void add_to(const float* from, std::int64_t count, float* to);

/// For every head: scores of the tokens against its key, softmax, weighted sum of the tokens.
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
