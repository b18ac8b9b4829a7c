// The patch embedding: pixels of patches to tokens.
#pragma once

#include <array>

#include "ops/call.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops {

/// Patches to tokens: normalise, project, add bias and position.
///   patches [images * tokens, patch_elements], channels innermost
///     -> [images * (prefix + tokens), hidden]
struct PatchEmbedProblem {
  std::int64_t images = 0;
  std::int64_t tokens = 0;          // N, patches an image
  std::int64_t patch_elements = 0;  // p * p * 3
  std::int64_t hidden = 0;
  /// Tokens before the patches of each image, such as a class token: rows of the weights.
  std::int64_t prefix = 0;
  DType input = DType::kU8;
  DType output = DType::kF32;
  /// Images of different sizes, one after the other, of `total` tokens together: `tokens` is the
  /// greatest number, and the position table a square with this many positions on a side, which is
  /// resized to the patches of each image. 0: all images are alike.
  std::int64_t position_side = 0;
  std::int64_t total = 0;

  [[nodiscard]] bool varlen() const { return position_side > 0; }
  /// Rows of the input.
  [[nodiscard]] std::int64_t patches() const { return varlen() ? total : images * tokens; }
  /// Rows of the output.
  [[nodiscard]] std::int64_t rows() const { return patches() + images * prefix; }

  friend auto operator<=>(const PatchEmbedProblem&, const PatchEmbedProblem&) = default;
};

/// Operands of patches that need no normalisation, and whose bias is in the position table; without
/// prefix.
struct PatchEmbedOperands {
  Address patches = 0;
  Address weight = 0;    // (hidden, patch_elements), i8 for u8 patches, else of their type
  Address scale = 0;     // f32 (hidden) of i8 weights
  Address position = 0;  // (tokens, hidden) of the output's type
  Address output = 0;
};

/// A pixel value v of channel c enters the projection as v * scale[c] + shift[c].
struct PatchEmbedWeights {
  LinearWeights projection;           // weight [hidden, p * p * 3] in (row, column, channel) order
  std::span<const float> position{};  // [tokens, hidden]
  std::int64_t position_side = 0;     // see PatchEmbedProblem: [position_side^2, hidden]
  std::span<const float> prefix{};    // [PatchEmbedProblem::prefix, hidden], with their positions
  std::array<double, 3> scale{1, 1, 1};
  std::array<double, 3> shift{0, 0, 0};
};

struct PatchEmbedCall {
  PatchEmbedProblem problem;
  const Prepared& weights;
  ConstTensorView patches;
  TensorView tokens;
  ImageShapes shapes{};  // when the problem is of different sizes; likewise below

  [[nodiscard]] static Place place() { return Place::kPatchEmbed; }
};

[[nodiscard]] std::string to_string(const PatchEmbedProblem& problem);
[[nodiscard]] Support valid(const PatchEmbedProblem& problem);
void check(const PatchEmbedCall& call);
void check_weights(const PatchEmbedWeights& weights);

void run(const PatchEmbedCall& call, cpu::CpuExecutor& executor);
void run(const PatchEmbedCall& call, gpu::GpuExecutor& executor);
void run(const PatchEmbedCall& call, reference::ReferenceExecutor& executor);
[[nodiscard]] PreparedPtr prepare(const PatchEmbedWeights& weights, const cpu::CpuTypes& types);
[[nodiscard]] PreparedPtr prepare(const PatchEmbedWeights& weights, gpu::Uploader& uploader);
void keep(PatchEmbedWeights& weights, reference::Storage& storage);
[[nodiscard]] Support can_run(const PatchEmbedProblem& problem, const cpu::CpuTypes& types);
[[nodiscard]] Support can_run(const PatchEmbedProblem& problem, const gpu::Device& device);
void run(const PatchEmbedProblem& problem, const PatchEmbedOperands& operands,
         const cpu::HostThreads& threads);
void run(const PatchEmbedProblem& problem, const PatchEmbedOperands& operands,
         gpu::CallerStream& stream);

}  // namespace fovea::ops
