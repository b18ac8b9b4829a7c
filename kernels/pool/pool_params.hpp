// What the kernels of the pooling head take; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea::pool {

inline constexpr int kThreads = 256;  // of a block of attend and linear
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kMaxHeads = 16;  // rows of one matrix product

/// Elements between rows in shared memory, so that the rows of a matrix take all banks.
inline constexpr int kPad = 8;

/// attend's shared memory with tiles of `tokens` tokens: scores, weights, and two numbers a head.
constexpr int attend_fixed_bytes(int tokens) {
  return kWarps * tokens * (kMaxHeads + 1) * 4 + kMaxHeads * (tokens + kPad) * 2 +
         2 * kMaxHeads * 4;
}
constexpr int attend_shared_bytes(int tokens, int hidden) {
  return attend_fixed_bytes(tokens) + tokens * (hidden + kPad) * 2;
}

/// attend: for every image and head the mean of its tokens, weighted by softmax(x . key).
/// Heads beyond the model's have keys of zeros.
struct AttendParams {
  const std::uint16_t* x = nullptr;     // bf16 (images, tokens, hidden)
  const std::uint32_t* keys = nullptr;  // pack_pool_keys()
  std::uint16_t* mean = nullptr;        // bf16 (images, heads, hidden), when there is one split
  float* partial = nullptr;             // (images, splits, kMaxHeads, hidden), unnormalised
  float* statistics = nullptr;          // (images, splits, 2, kMaxHeads): largest score, sum
  std::int32_t tokens = 0;
  std::int32_t heads = 0;
  std::int32_t hidden = 0;  // a multiple of 16
  std::int32_t splits = 0;  // blocks that share an image
  std::int32_t tokens_per_split = 0;
};

/// combine: the splits of attend put together.
struct CombineParams {
  const float* partial = nullptr;
  const float* statistics = nullptr;
  std::uint16_t* mean = nullptr;
  std::int32_t heads = 0;
  std::int32_t hidden = 0;
  std::int32_t splits = 0;
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
