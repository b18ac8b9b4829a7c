// What the kernels of the pooling head take; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::pool {

inline constexpr int kThreads = 256;  // of a CTA of scores and linear
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kMaxHeads = 16;  // rows of one matrix product

/// Elements between rows in shared memory, so that the rows of a matrix take all banks.
inline constexpr int kPad = 8;

inline constexpr int kScoreRows = 16;  // of a CTA

inline constexpr int kMeanThreads = 256;
inline constexpr int kMeanColumns = 128;  // of a CTA
inline constexpr int kMeanTokens = 32;    // of a tile
inline constexpr int kMeanStages = 4;

/// mean's shared memory: the ring of tiles, and three numbers a part of a head's softmax; then the
/// softmax of the tokens.
constexpr int mean_fixed_bytes() {
  return kMeanStages * kMeanTokens * (kMeanColumns + kPad) * 2 + 3 * kMeanThreads * 4;
}
constexpr int mean_shared_bytes(int tokens) {
  const int padded = (tokens + kMeanTokens - 1) / kMeanTokens * kMeanTokens;
  return mean_fixed_bytes() + kMaxHeads * (padded + kPad) * 2;
}

/// Norm of a row: x stands for (x - mean) * scale.
struct RowNorm {
  float scale;
  float mean;
};

/// scores: of the rows' layer norms for every head. Heads beyond the model's have keys of zeros.
struct ScoreParams {
  const std::uint16_t* x = nullptr;     // bf16 (rows, hidden)
  const std::uint16_t* keys = nullptr;  // bf16 (kMaxHeads, hidden)
  const float* key_sums = nullptr;      // (kMaxHeads), over hidden
  float* scores = nullptr;              // (rows, kMaxHeads)
  RowNorm* norms = nullptr;             // (rows)
  std::int64_t rows = 0;
  std::int32_t hidden = 0;  // a multiple of 8
  float inverse_hidden = 0;
  float eps = 0;
};

/// mean: for every image and head the mean of its tokens' layer norms, weighted by the softmax of
/// their scores.
struct MeanParams {
  const std::uint16_t* x = nullptr;  // bf16 (images, tokens, hidden)
  const float* scores = nullptr;     // (images, tokens, kMaxHeads)
  const RowNorm* norms = nullptr;    // (images, tokens)
  std::uint16_t* mean = nullptr;     // bf16 (images, heads, hidden)
  /// The first token of each image, and the end, of images with different numbers of tokens
  /// (images + 1); `tokens` is then the greatest. Null: all have as many.
  const std::int32_t* starts = nullptr;
  std::int32_t tokens = 0;
  std::int32_t heads = 0;
  std::int32_t hidden = 0;  // a multiple of 16
};

enum class Activation : std::int32_t { kNone, kGelu, kResidual };

/// linear: output (rows, columns) = activation(a w^T + bias), where columns [g * group_columns,
/// (g + 1) * group_columns) are of the rows at a + g * group_stride.
struct LinearParams {
  const std::uint16_t* a = nullptr;  // bf16, rows a_stride elements apart
  const std::uint16_t* w = nullptr;  // bf16 (columns, depth)
  const float* bias = nullptr;       // (columns)
  const float* residual = nullptr;   // (rows, columns), kResidual
  float* output_f32 = nullptr;       // (rows, columns); either may be null
  std::uint16_t* output_bf16 = nullptr;
  std::int64_t a_stride = 0;
  std::int64_t group_stride = 0;
  std::int32_t group_columns = 0;
  std::int32_t rows = 0;
  std::int32_t columns = 0;  // a multiple of 8
  std::int32_t depth = 0;    // a multiple of 8
  Activation activation = Activation::kNone;
};

}  // namespace fovea::pool
