// The pooling head: converts the tokens of an image to its embedding.
#pragma once

#include "ops/call.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops {

/// The multi-head attention pooling head, with constants folded: the probe is a parameter, so a
/// head's score of token x is x . key (scale, Wk^T and q folded into `key`; the bias of K shifts
/// all scores of a head alike and cancels in the softmax), and V is linear, so it applies after the
/// weighted sum.
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
  /// Whether the layer norm of PoolWeights, with the same eps, is first applied to x. Only for
  /// backends whose can_run accepts it; on others the norm is a separate operator.
  bool norm = false;
  /// Images with different numbers of tokens, concatenated, with `total` tokens in all: `tokens` is
  /// the maximum per image.
  bool varlen = false;
  std::int64_t total = 0;

  [[nodiscard]] std::int64_t head_dim() const { return heads == 0 ? 0 : hidden / heads; }
  [[nodiscard]] std::int64_t rows() const { return varlen ? total : images * tokens; }

  friend auto operator<=>(const PoolProblem&, const PoolProblem&) = default;
};

/// See PoolProblem.
struct PoolWeights {
  std::int64_t heads = 0;
  std::span<const float> key{};  // [heads, hidden]
  /// The layer norm of the tokens, for problems with PoolProblem::norm.
  LayerNormWeights input_norm{};
  LinearWeights value;
  LinearWeights out;
  LayerNormWeights norm;
  LinearWeights fc1;
  LinearWeights fc2;
};

struct PoolCall {
  PoolProblem problem;
  const Prepared& weights;
  ConstTensorView input;
  TensorView output;
  ImageShapes shapes{};

  [[nodiscard]] static Place place() { return Place::kPool; }
};

[[nodiscard]] std::string to_string(const PoolProblem& problem);
[[nodiscard]] Support valid(const PoolProblem& problem);
void check(const PoolCall& call);
void check_weights(const PoolWeights& weights);

void run(const PoolCall& call, cpu::CpuExecutor& executor);
void run(const PoolCall& call, gpu::GpuExecutor& executor);
void run(const PoolCall& call, reference::ReferenceExecutor& executor);
[[nodiscard]] PreparedPtr prepare(const PoolWeights& weights, const cpu::CpuTypes& types);
[[nodiscard]] PreparedPtr prepare(const PoolWeights& weights, gpu::Uploader& uploader);
void keep(PoolWeights& weights, reference::Storage& storage);
[[nodiscard]] Support can_run(const PoolProblem& problem, const cpu::CpuTypes& types);
[[nodiscard]] Support can_run(const PoolProblem& problem, const gpu::Device& device);

}  // namespace fovea::ops
