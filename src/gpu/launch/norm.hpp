// LayerNorm on a GPU, whole or as the norms of its rows: problems and launches.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"

namespace fovea::gpu {

/// output = (x - mean) / sqrt(variance + eps) * weight + bias over each row of x (rows, width).
struct LayerNormProblem {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-6;
  DType input = DType::kBF16;
  /// kBF16, kF32 or kI8; for kI8 each row is divided by max |row| / 127, which goes to row_scale.
  DType output = DType::kBF16;
};

struct LayerNormOperands {
  DevicePtr input = 0;      // (rows, width)
  DevicePtr weight = 0;     // f32 (width)
  DevicePtr bias = 0;       // f32 (width)
  DevicePtr output = 0;     // (rows, width); may be the input when the types are the same
  DevicePtr row_scale = 0;  // f32 (rows), for kI8
};

[[nodiscard]] std::string to_string(const LayerNormProblem& problem);
[[nodiscard]] std::string can_run(const LayerNormProblem& problem, const DeviceInfo& device);
[[nodiscard]] Launch layer_norm_launch(Device& device, const LayerNormProblem& problem,
                                       const LayerNormOperands& operands);

/// norms (rows, 2) = 1 / sqrt(variance + eps) and -mean / sqrt(variance + eps) of each row of x
/// (rows, width): what GemmOperands::row_norm takes.
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
[[nodiscard]] std::string can_run(const RowNormProblem& problem, const DeviceInfo& device);
[[nodiscard]] Launch row_norm_launch(Device& device, const RowNormProblem& problem,
                                     const RowNormOperands& operands);

}  // namespace fovea::gpu
