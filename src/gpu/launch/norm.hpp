// LayerNorm on a GPU: problem and launch.
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
  DType output = DType::kBF16;  // kBF16, kF32, kE4M3 or kI8
  /// Each row is divided by max |row| / 448 (i8: 127), which goes to row_scale.
  bool row_scale = false;
};

struct LayerNormOperands {
  DevicePtr input = 0;      // (rows, width)
  DevicePtr weight = 0;     // f32 (width)
  DevicePtr bias = 0;       // f32 (width)
  DevicePtr output = 0;     // (rows, width); may be the input when the types are the same
  DevicePtr row_scale = 0;  // f32 (rows)
};

[[nodiscard]] std::string to_string(const LayerNormProblem& problem);
[[nodiscard]] std::string can_run(const LayerNormProblem& problem, const DeviceInfo& device);
[[nodiscard]] Launch layer_norm_launch(Device& device, const LayerNormProblem& problem,
                                       const LayerNormOperands& operands);

}  // namespace fovea::gpu
