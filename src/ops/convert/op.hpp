// Results in another type.
#pragma once

#include "core/tensor_view.hpp"
#include "ops/devices.hpp"
#include "ops/place.hpp"

namespace fovea::ops {

/// The same values as f16 or f32, rounded to nearest even: both [rows, width], the input of the
/// stream's type or f32. What f16 does not hold becomes infinite.
struct ConvertCall {
  ConstTensorView input;
  TensorView output;

  [[nodiscard]] static Place place() { return Place::kOther; }
};

/// Throws fovea::Error unless the operands fit together.
void check(const ConvertCall& call);

// Parts for each device; what they get is checked.
void run(const ConvertCall& call, cpu::CpuExecutor& executor);
void run(const ConvertCall& call, gpu::GpuExecutor& executor);
void run(const ConvertCall& call, reference::ReferenceExecutor& executor);

}  // namespace fovea::ops
