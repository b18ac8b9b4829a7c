// The operands of an epilogue, in addition to the accumulators, and its output; shared by host and
// device.
#pragma once

#include <cstdint>

namespace fovea::epilogue {

inline constexpr int kQuad = 4;         // lanes that share a row of the accumulators
inline constexpr int kGeluOffset = 96;  // subtracted from i8 results of GELU before they are stored

/// The epilogue's operation on a product y.
enum class Kind : std::uint8_t {
  kBias,      // output = y + bias
  kGelu,      // output = gelu_tanh(y + bias)
  kResidual,  // output += y + bias
  kPosition,  // patch embedding: output = y + position[row % tokens], which includes the bias
};
/// The type of the output. With kMXFP8, every 32 columns of a row have a scale (block_scale.cuh).
enum class Output : std::uint8_t { kBF16, kE4M3, kI8, kMXFP8 };

/// LayerNorm of a row without weight and bias: x * scale + shift.
struct alignas(8) RowNorm {
  float scale;  // 1 / deviation
  float shift;  // -mean / deviation
};

/// Rows are numbered by (token, image), with `tokens` tokens per image; a plain matrix is one
/// image. A tile has box_tokens x box_images rows, in the order of tokens, then images.
struct Params {
  void* output = nullptr;               // (M, N), of the output type
  const void* position = nullptr;       // bf16 (position_rows, N)
  const float* bias = nullptr;          // (N)
  const float* column_scale = nullptr;  // (N)
  const float* row_scale = nullptr;     // (M), or null
  const RowNorm* row_norm = nullptr;    // (M), for kernels that normalise A's rows
  const float* column_sum = nullptr;    // (N), the sums of B over k, for the same kernels
  float inverse_output_scale = 1.0F;
  std::int32_t columns = 0;  // N
  std::int32_t tokens = 0;
  std::int32_t position_rows = 1;
  std::int32_t images = 0;
  std::int32_t box_tokens = 0;
  std::int32_t box_images = 0;
};

}  // namespace fovea::epilogue
