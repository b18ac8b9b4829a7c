// Problems: what is asked of an operator (shapes, types, epilogue), apart from how it is done.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/dtype.hpp"
#include "core/tensor_view.hpp"

namespace fovea::ops {

/// uint8 patches to tokens: normalise, project, add bias and position.
///   patches u8 [images * tokens, patch_elements], channels innermost -> [images * tokens, hidden]
struct PatchEmbedProblem {
  std::int64_t images = 0;
  std::int64_t tokens = 0;          // N, patches an image
  std::int64_t patch_elements = 0;  // p * p * 3
  std::int64_t hidden = 0;
  DType output = DType::kF32;

  [[nodiscard]] std::int64_t rows() const { return images * tokens; }
};

/// (x - mean) / sqrt(variance + eps) * weight + bias over each row.
///   [rows, width] -> [rows, width]
struct LayerNormProblem {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-6;
  DType input = DType::kF32;
  DType output = DType::kF32;
  /// One-byte outputs: each row is divided by a scale of its own, [rows] f32.
  bool row_scales = false;
};

/// What `linear` does with y = x W^T + bias before it stores it.
enum class Epilogue : std::uint8_t {
  kNone,      // output = y
  kGeluTanh,  // output = y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 y^3)))
  kResidual,  // output += y
};

/// output = epilogue(input W^T + bias).
///   input [rows, in], W [out, in], bias [out] -> output [rows, out]
struct LinearProblem {
  std::string_view name = "linear";  // of the place in the network, for messages and profiles
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  Epilogue epilogue = Epilogue::kNone;
  DType input = DType::kF32;
  DType output = DType::kF32;
  bool row_scales = false;  // the input has them, see LayerNormProblem
  /// The input's rows go through the layer norm that the weights came with, with this eps. Asked
  /// only of backends whose can_run agrees; others do it as an operator of its own.
  bool norm = false;
  double eps = 1e-6;
};

/// softmax(scale * Q K^T) V for every image and head, without mask, read in place from packed
/// projections: a row of qkv holds all of q, then all of k, then all of v.
///   qkv [images * tokens, 3 * heads * head_dim] -> [images * tokens, heads * head_dim]
struct AttentionProblem {
  std::int64_t images = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  double scale = 1.0;
  DType type = DType::kF32;  // of qkv
  DType output = DType::kF32;

  [[nodiscard]] std::int64_t hidden() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t rows() const { return images * tokens; }
};

/// The multi-head attention pooling head, with what is constant folded away: the probe is a
/// parameter, so a head's score of token x is x . key (scale, Wk^T and q folded into `key`; the
/// bias of K shifts all scores of a head alike and cancels in the softmax), and V is linear, so it
/// applies after the weighted sum.
///   y = out_proj(concat_heads(Wv_head (sum_n softmax(x . key)_n x_n) + bv_head))
///   output = y + fc2(gelu_tanh(fc1(layer_norm(y))))
///   x [images * tokens, hidden] -> f32 [images, hidden]
struct PoolProblem {
  std::int64_t images = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;
  double eps = 1e-6;
  DType input = DType::kF32;
  /// x goes through the layer norm that the weights came with, with the same eps. Asked only of
  /// backends whose can_run agrees; for others it is an operator of its own.
  bool norm = false;

  [[nodiscard]] std::int64_t head_dim() const { return heads == 0 ? 0 : hidden / heads; }
  [[nodiscard]] std::int64_t rows() const { return images * tokens; }
};

/// One line for messages, e.g. "linear fc1: [784, 768] bf16 x [3072, 768]^T -> bf16, gelu_tanh".
[[nodiscard]] std::string to_string(Epilogue epilogue);
[[nodiscard]] std::string to_string(const PatchEmbedProblem& problem);
[[nodiscard]] std::string to_string(const LayerNormProblem& problem);
[[nodiscard]] std::string to_string(const LinearProblem& problem);
[[nodiscard]] std::string to_string(const AttentionProblem& problem);
[[nodiscard]] std::string to_string(const PoolProblem& problem);

/// Why the problem makes no sense on any backend; empty when it does.
[[nodiscard]] std::string reason_invalid(const PatchEmbedProblem& problem);
[[nodiscard]] std::string reason_invalid(const LayerNormProblem& problem);
[[nodiscard]] std::string reason_invalid(const LinearProblem& problem);
[[nodiscard]] std::string reason_invalid(const AttentionProblem& problem);
[[nodiscard]] std::string reason_invalid(const PoolProblem& problem);

/// Throws fovea::Error unless `view` has this type and shape; `problem` and `what` are named.
void check_operand(const std::string& problem, std::string_view what, const ConstTensorView& view,
                   DType dtype, std::initializer_list<std::int64_t> shape);

}  // namespace fovea::ops
