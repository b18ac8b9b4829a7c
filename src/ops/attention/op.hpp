// Attention: softmax(scale Q K^T) V for every sequence and head.
#pragma once

#include "ops/call.hpp"

namespace fovea::ops {

/// Element (b, n, h, d) of an operand is at b * batch + n * row + h * head + d, in elements.
struct AttentionStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;

  friend auto operator<=>(const AttentionStrides&, const AttentionStrides&) = default;
};

struct AttentionProblem {
  std::int64_t batch = 0;     // sequences
  std::int64_t heads = 0;     // heads of q and o
  std::int64_t kv_heads = 0;  // of k and v; head h reads h / (heads / kv_heads). 0: heads
  std::int64_t queries = 0;   // length of q
  std::int64_t keys = 0;      // length of k and v
  std::int64_t head_dim = 0;
  double scale = 1.0;
  /// Query i attends to keys 0 to i + keys - queries: the mask is aligned to the last key. If the
  /// keys after the first `queries` keys are omitted, this equals torch's is_causal mask, which is
  /// aligned to the first key.
  bool causal = false;
  DType type = DType::kF32;  // of q, k, v and o
  /// Sequences of different lengths, concatenated in tensors (total, heads, head_dim): `queries`
  /// and `keys` are the maximum lengths, and AttentionStrides::batch is unused. Sequence b has rows
  /// cu_seqlens[b] to cu_seqlens[b + 1] - 1. The result of a query without keys is zero.
  bool varlen = false;
  AttentionStrides q{}, k{}, v{}, o{};

  [[nodiscard]] std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  [[nodiscard]] std::int64_t hidden() const { return heads * head_dim; }

  friend auto operator<=>(const AttentionProblem&, const AttentionProblem&) = default;
};

struct AttentionOperands {
  Address q = 0;
  Address k = 0;
  Address v = 0;
  Address o = 0;
  /// Starts of the sequences when `varlen` is set: batch + 1 int32 each, the first of which is 0.
  Address cu_seqlens_q = 0;
  Address cu_seqlens_k = 0;
};

struct AttentionCall {
  AttentionProblem problem;
  AttentionOperands operands;

  [[nodiscard]] static Place place() { return Place::kAttention; }
};

/// Returns the attention problem of the encoder, with packed projections: a row of qkv holds all of
/// q, then all of k, then all of v. qkv [images * tokens, 3 * heads * head_dim] -> [.., heads *
/// head_dim].
[[nodiscard]] AttentionProblem packed_attention(std::int64_t images, std::int64_t tokens,
                                                std::int64_t heads, std::int64_t head_dim,
                                                double scale, DType type);
/// Returns the operands for a packed_attention problem.
[[nodiscard]] AttentionOperands packed_operands(const AttentionProblem& problem, Address qkv,
                                                Address output);

/// Such as "attention (2,12/4,196x300,64) causal bf16": batch, heads of q and of k, lengths, head
/// dimension.
[[nodiscard]] std::string to_string(const AttentionProblem& problem);
[[nodiscard]] Support valid(const AttentionProblem& problem);

/// Returns the call for a packed_attention problem. Throws fovea::Error when the problem is not
/// one, or when the operands have other shapes.
[[nodiscard]] AttentionCall packed_attention_call(const AttentionProblem& problem,
                                                  const ConstTensorView& qkv,
                                                  const TensorView& output,
                                                  const ImageShapes& shapes = {});

void check(const AttentionCall& call);

void run(const AttentionCall& call, cpu::CpuExecutor& executor);
void run(const AttentionCall& call, gpu::GpuExecutor& executor);
void run(const AttentionCall& call, reference::ReferenceExecutor& executor);
// GPU tensors of the caller: see gpu/launch/attention.hpp, where a kernel level may be forced.
void run(const AttentionProblem& problem, const AttentionOperands& operands,
         const cpu::HostThreads& threads);

}  // namespace fovea::ops
