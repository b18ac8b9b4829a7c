// The patch embedding: converts pixels of patches to tokens.
#pragma once

#include <array>

#include "ops/call.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops {

/// Converts patches to tokens: normalises, projects, and adds bias and position.
///   patches [images * tokens, patch_elements], channels innermost
///     -> [images * (prefix + tokens), hidden]
struct PatchEmbedProblem {
  std::int64_t images = 0;
  std::int64_t tokens = 0;          // N, patches per image
  std::int64_t patch_elements = 0;  // p * p * 3
  std::int64_t hidden = 0;
  /// Number of tokens before the patches of each image, such as a class token; they are weights.
  std::int64_t prefix = 0;
  DType input = DType::kU8;
  DType output = DType::kF32;
  /// Side of the square position table, in positions, when images have different sizes: the table
  /// is resized to the patches of each image, and `tokens` is the maximum per image. 0: all images
  /// have the same size.
  std::int64_t position_side = 0;
  /// Total number of tokens of the images, which are concatenated, if they have different sizes.
  std::int64_t total = 0;

  [[nodiscard]] bool varlen() const { return position_side > 0; }
  /// Number of rows of the input.
  [[nodiscard]] std::int64_t patches() const { return varlen() ? total : images * tokens; }
  /// Number of rows of the output.
  [[nodiscard]] std::int64_t rows() const { return patches() + images * prefix; }

  friend auto operator<=>(const PatchEmbedProblem&, const PatchEmbedProblem&) = default;
};

/// Operands where normalisation is folded into the weights and the bias into the position table;
/// without prefix tokens.
struct PatchEmbedOperands {
  Address patches = 0;
  Address weight = 0;    // (hidden, patch_elements), i8 for u8 patches, else the patches' type
  Address scale = 0;     // f32 (hidden), for i8 weights
  Address position = 0;  // (tokens, hidden), in the output's type
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
  ImageShapes shapes{};  // when the images have different sizes

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
