// LayerNorm on a GPU: problems and launches of the full operator, and of row norms alone.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"
#include "ops/layer_norm/op.hpp"

namespace fovea::gpu {

/// Whether a kernel runs the problem: bf16 or f32 inputs, and bf16, f32 or i8 outputs (i8 with row
/// scales of max |row| / 127); or bf16 inputs and MXFP8 outputs, where tensor cores support it.
[[nodiscard]] Support can_run(const ops::LayerNormProblem& problem, const DeviceInfo& device);
[[nodiscard]] Launch layer_norm_launch(Device& device, const ops::LayerNormProblem& problem,
                                       const ops::LayerNormOperands& operands);

/// Computes norms (rows, 2) = 1 / sqrt(variance + eps) and -mean / sqrt(variance + eps) of each row
/// of x (rows, width), for GemmOperands::row_norm.
struct RowNormProblem {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-6;
  DType input = DType::kBF16;
};

struct RowNormOperands {
  DevicePtr input = 0;  // (rows, width)
  DevicePtr norms = 0;  // f32 (rows, 2)
};

[[nodiscard]] std::string to_string(const RowNormProblem& problem);
[[nodiscard]] Support can_run(const RowNormProblem& problem, const DeviceInfo& device);
[[nodiscard]] Launch row_norm_launch(Device& device, const RowNormProblem& problem,
                                     const RowNormOperands& operands);

}  // namespace fovea::gpu
