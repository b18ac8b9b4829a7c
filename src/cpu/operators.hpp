// The operators on tensors that somebody else holds: strides, 16-bit types, nothing packed ahead.
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "ops/problem.hpp"

namespace fovea::cpu {

/// In elements; head_dim is dense.
struct HeadStrides {
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// One sequence of a batch: where its first rows lie (elements from the operands' addresses), and
/// how long it is.
struct Sequence {
  std::int64_t q = 0;
  std::int64_t k = 0;
  std::int64_t v = 0;
  std::int64_t o = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

enum class Causal : std::uint8_t {
  kNone,
  kFirst,  // query i sees keys 0 .. i
  kLast,   // query i sees keys 0 .. i + keys - queries
};

/// o = softmax(scale q k^T) v for each sequence and head; head h reads k and v of head
/// h * kv_heads / heads. Queries that see no key get zeros.
struct AttentionArgs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  HeadStrides q_strides, k_strides, v_strides, o_strides;
  std::span<const Sequence> sequences{};
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 1.0;  // positive
  Causal causal = Causal::kNone;
  DType type = DType::kF32;  // kF32, kBF16 or kF16
};
void attention(const AttentionArgs& args, int threads);

/// output [rows, out] = epilogue(x [rows, in] weight [out, in]^T + bias [out]), dense. x and weight
/// are of `type` or, for images in bytes, u8 and i8 with a scale [out] for each row of the weight.
struct LinearArgs {
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* bias = nullptr;   // or none
  const float* scale = nullptr;  // of one-byte weights
  void* output = nullptr;
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  ops::Epilogue epilogue = ops::Epilogue::kNone;
  DType x_type = DType::kF32;
  DType weight_type = DType::kF32;
  DType type = DType::kF32;  // of the output: kF32, kBF16 or kF16
};
void linear(const LinearArgs& args, int threads);

/// output [images * tokens, out] starts as position [tokens, out] under every image; then linear.
void patch_embed(const LinearArgs& args, const void* position, std::int64_t tokens, int threads);

/// Rows [rows, width] of kF32, kBF16 or kF16 -> the same.
struct NormArgs {
  const void* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  void* output = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 0;
  DType type = DType::kF32;
};
void layer_norm(const NormArgs& args, int threads);

}  // namespace fovea::cpu
