// Conversion of tensors on a GPU: problems and launches.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "core/support.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"

namespace fovea::gpu {

/// output (rows, width) = input (rows, width), rounded to nearest even: bf16 to f16 or f32, f32 to
/// f16.
struct ConvertProblem {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  DType input = DType::kBF16;
  DType output = DType::kF16;
};

[[nodiscard]] std::string to_string(const ConvertProblem& problem);
[[nodiscard]] Support can_run(const ConvertProblem& problem, const DeviceInfo& device);
[[nodiscard]] Launch convert_launch(const DeviceInfo& device, const ConvertProblem& problem,
                                    DevicePtr input, DevicePtr output);

}  // namespace fovea::gpu
