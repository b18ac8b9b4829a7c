// What an epilogue reads beside the accumulators and where it writes; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::epilogue {

inline constexpr int kQuad = 4;         // lanes that share a row of the accumulators
inline constexpr int kGeluOffset = 96;  // i8 results of GELU are stored less this

/// What becomes of a product y.
enum class Kind : std::uint8_t {
  kBias,      // output = y + bias
  kGelu,      // output = gelu_tanh(y + bias)
  kResidual,  // output += y + bias
  kPosition,  // output = y + position[row % tokens], which has the bias in it: the patch embedding
};
/// The type of the output; of kMXFP8 each 32 columns of a row get a scale (block_scale.cuh).
enum class Output : std::uint8_t { kBF16, kE4M3, kI8, kMXFP8 };

/// What a LayerNorm does to a row but for its weight and bias: x * scale + shift.
struct alignas(8) RowNorm {
  float scale;  // 1 / deviation
  float shift;  // -mean / deviation
};

/// Rows come as (token, image) with `tokens` of the first; plain matrices are one image. A tile is
/// box_tokens x box_images of them, tokens first.
struct Params {
  void* output = nullptr;               // (M, N), bf16 or e4m3
  const void* position = nullptr;       // bf16 (position_rows, N)
  const float* bias = nullptr;          // (N)
  const float* column_scale = nullptr;  // (N)
  const float* row_scale = nullptr;     // (M), or null
  const RowNorm* row_norm = nullptr;    // (M), of kernels that normalise A's rows: with
  const float* column_sum = nullptr;    // (N), the sum over k of B
  float inverse_output_scale = 1.0F;
  std::int32_t columns = 0;  // N
  std::int32_t tokens = 0;
  std::int32_t position_rows = 1;
  std::int32_t images = 0;
  std::int32_t box_tokens = 0;
  std::int32_t box_images = 0;
};

}  // namespace fovea::epilogue
