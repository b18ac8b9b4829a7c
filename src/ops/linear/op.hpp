// Linear layers: epilogue(x W^T + bias).
#pragma once

#include "ops/call.hpp"
#include "ops/layer_norm/op.hpp"

namespace fovea::ops {

/// The operation that `linear` applies to y = x W^T + bias before it stores the output.
enum class Epilogue : std::uint8_t {
  kNone,      // output = y
  kGeluTanh,  // output = y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 y^3)))
  kGeluErf,   // output = y / 2 * (1 + erf(y / sqrt(2)))
  kResidual,  // output += y
};
/// Names in the order of Epilogue.
inline constexpr std::string_view kEpilogueNames[] = {"none", "gelu_tanh", "gelu_erf", "residual"};

[[nodiscard]] constexpr std::string_view to_string(Epilogue epilogue) {
  return kEpilogueNames[static_cast<std::size_t>(epilogue)];
}

/// output = epilogue(input W^T + bias).
///   input [rows, in], W [out, in], bias [out] -> output [rows, out]
struct LinearProblem {
  Place place = Place::kOther;
  std::int64_t layer = 0;  // index of the encoder layer that contains this linear layer
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  Epilogue epilogue = Epilogue::kNone;
  DType input = DType::kF32;
  DType output = DType::kF32;
  bool row_scales = false;  // the input has row scales, see LayerNormProblem
  /// Whether the layer norm of LinearWeights, with this eps, is first applied to the input's rows.
  /// Only for backends whose can_run accepts it; on others the norm is a separate operator.
  bool norm = false;
  double eps = 1e-6;

  friend auto operator<=>(const LinearProblem&, const LinearProblem&) = default;
};

/// Operands are dense; weights have the input's type, or i8 for u8 inputs.
struct LinearOperands {
  Address input = 0;
  Address weight = 0;
  Address bias = 0;   // f32 (out), or 0
  Address scale = 0;  // f32 (out), for i8 weights
  Address output = 0;
};

/// y = x weight^T + bias: weight [out, in], bias [out].
struct LinearWeights {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::span<const float> weight{};
  std::span<const float> bias{};
  /// The type and storage of the input. Backends derive the type of the weights from it.
  Stored input{};
  Stored output{};
  /// Weights that calibration has already rounded to one byte, if any: [out, in], with a scale for
  /// each output, weight[o, i] ~ rounded[o, i] * rounded_scale[o]. `bias` is then corrected for
  /// the rounding errors.
  std::span<const std::uint8_t> rounded{};
  std::span<const float> rounded_scale{};
  /// The layer norm of the input, for problems with LinearProblem::norm.
  LayerNormWeights norm{};
};

struct LinearCall {
  LinearProblem problem;
  const Prepared& weights;
  ConstTensorView input;
  TensorView output;
  ConstTensorView row_scales{};

  [[nodiscard]] Place place() const { return problem.place; }
};

/// Such as "linear fc1: [784, 768] bf16 x [3072, 768]^T -> bf16, gelu_tanh".
[[nodiscard]] std::string to_string(const LinearProblem& problem);
[[nodiscard]] Support valid(const LinearProblem& problem);
void check(const LinearCall& call);
void check_weights(const LinearWeights& weights);

void run(const LinearCall& call, cpu::CpuExecutor& executor);
void run(const LinearCall& call, gpu::GpuExecutor& executor);
void run(const LinearCall& call, reference::ReferenceExecutor& executor);
[[nodiscard]] PreparedPtr prepare(const LinearWeights& weights, const cpu::CpuTypes& types);
[[nodiscard]] PreparedPtr prepare(const LinearWeights& weights, gpu::Uploader& uploader);
void keep(LinearWeights& weights, reference::Storage& storage);
[[nodiscard]] Support can_run(const LinearProblem& problem, const cpu::CpuTypes& types);
[[nodiscard]] Support can_run(const LinearProblem& problem, const gpu::Device& device);
void run(const LinearProblem& problem, const LinearOperands& operands,
         const cpu::HostThreads& threads);
void run(const LinearProblem& problem, const LinearOperands& operands, gpu::CallerStream& stream);

}  // namespace fovea::ops
