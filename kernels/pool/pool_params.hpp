// Parameters of the pooling head's kernels; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::pool {

inline constexpr int kThreads = 256;  // threads per CTA of `scores` and `linear`
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kMaxHeads = 16;  // the rows of one matrix product

/// Padding of rows in shared memory, in elements, so that the rows of a matrix use different banks.
inline constexpr int kPad = 8;

inline constexpr int kScoreRows = 16;  // rows per CTA

inline constexpr int kMeanThreads = 256;
inline constexpr int kMeanColumns = 128;  // columns per CTA
inline constexpr int kMeanTokens = 32;    // tokens per tile
inline constexpr int kMeanStages = 4;

/// Bytes of shared memory of `mean`: fixed ones for the ring of tiles and for three floats per part
/// of a head's softmax, then the softmax of the tokens.
constexpr int mean_fixed_bytes() {
  return kMeanStages * kMeanTokens * (kMeanColumns + kPad) * 2 + 3 * kMeanThreads * 4;
}
constexpr int mean_shared_bytes(int tokens) {
  const int padded = (tokens + kMeanTokens - 1) / kMeanTokens * kMeanTokens;
  return mean_fixed_bytes() + kMaxHeads * (padded + kPad) * 2;
}

/// Normalisation of a row: (x - mean) * scale.
struct RowNorm {
  float scale;
  float mean;
};

/// Parameters of `scores`: the scores of the normalised rows for every head. Heads beyond the
/// model's have keys of zeros.
struct ScoreParams {
  const std::uint16_t* x = nullptr;     // bf16 (rows, hidden)
  const std::uint16_t* keys = nullptr;  // bf16 (kMaxHeads, hidden)
  const float* key_sums = nullptr;      // (kMaxHeads), sums of the keys over hidden
  float* scores = nullptr;              // (rows, kMaxHeads)
  RowNorm* norms = nullptr;             // (rows)
  std::int64_t rows = 0;
  std::int32_t hidden = 0;  // a multiple of 8
  float inverse_hidden = 0;
  float eps = 0;
};

/// Parameters of `mean`: for every image and head, the mean of the normalised tokens, weighted by
/// the softmax of their scores.
struct MeanParams {
  const std::uint16_t* x = nullptr;  // bf16 (images, tokens, hidden)
  const float* scores = nullptr;     // (images, tokens, kMaxHeads)
  const RowNorm* norms = nullptr;    // (images, tokens)
  std::uint16_t* mean = nullptr;     // bf16 (images, heads, hidden)
  /// For images with different numbers of tokens: the first token of each image, and the end
  /// (images + 1); `tokens` is then the maximum. Null: all images have `tokens` tokens.
  const std::int32_t* starts = nullptr;
  std::int32_t tokens = 0;
  std::int32_t heads = 0;
  std::int32_t hidden = 0;  // a multiple of 16
};

enum class Activation : std::int32_t { kNone, kGelu, kResidual };

/// Parameters of `linear`: output (rows, columns) = activation(a w^T + bias), where columns [g *
/// group_columns, (g + 1) * group_columns) use the rows at a + g * group_stride.
struct LinearParams {
  const std::uint16_t* a = nullptr;  // bf16, rows a_stride elements apart
  const std::uint16_t* w = nullptr;  // bf16 (columns, depth)
  const float* bias = nullptr;       // (columns)
  const float* residual = nullptr;   // (rows, columns), for kResidual
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
