// LayerNorm: (x - mean) / sqrt(variance + eps) * weight + bias over each row.
#pragma once

#include "ops/call.hpp"

namespace fovea::ops {

/// [rows, width] -> [rows, width]
struct LayerNormProblem {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-6;
  DType input = DType::kF32;
  DType output = DType::kF32;
  /// Divides each row by its own scale, [rows] f32, for one-byte outputs.
  bool row_scales = false;

  friend auto operator<=>(const LayerNormProblem&, const LayerNormProblem&) = default;
};

struct LayerNormOperands {
  Address input = 0;      // (rows, width)
  Address weight = 0;     // f32 (width)
  Address bias = 0;       // f32 (width)
  Address output = 0;     // (rows, width); may be the input when the types are the same
  Address row_scale = 0;  // f32 (rows), if the problem has row scales
  /// The destination of the block scales of a kMXFP8 output (ops/block_scales.hpp).
  Address block_scales = 0;
};

/// weight [width], bias [width].
struct LayerNormWeights {
  std::span<const float> weight{};
  std::span<const float> bias{};
};

struct LayerNormCall {
  LayerNormProblem problem;
  const Prepared& weights;
  ConstTensorView input;
  TensorView output;        // may be `input` when the types are the same
  TensorView row_scales{};  // f32 [rows], when the problem has row scales

  [[nodiscard]] static Place place() { return Place::kLayerNorm; }
};

[[nodiscard]] std::string to_string(const LayerNormProblem& problem);
[[nodiscard]] Support valid(const LayerNormProblem& problem);
void check(const LayerNormCall& call);
void check_weights(const LayerNormWeights& weights);

void run(const LayerNormCall& call, cpu::CpuExecutor& executor);
void run(const LayerNormCall& call, gpu::GpuExecutor& executor);
void run(const LayerNormCall& call, reference::ReferenceExecutor& executor);
[[nodiscard]] PreparedPtr prepare(const LayerNormWeights& weights, const cpu::CpuTypes& types);
[[nodiscard]] PreparedPtr prepare(const LayerNormWeights& weights, gpu::Uploader& uploader);
void keep(LayerNormWeights& weights, reference::Storage& storage);
void run(const LayerNormProblem& problem, const LayerNormOperands& operands,
         const cpu::HostThreads& threads);
void run(const LayerNormProblem& problem, const LayerNormOperands& operands,
         gpu::CallerStream& stream);

}  // namespace fovea::ops
