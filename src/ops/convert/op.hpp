// Tensors in another type or place.
#pragma once

#include "ops/call.hpp"

namespace fovea::ops {

/// The same values elsewhere, both [rows, width]: as they are, or those of the stream's type or f32
/// as f16 or f32, rounded to nearest even. What f16 does not hold becomes infinite.
struct ConvertCall {
  ConstTensorView input;
  TensorView output;

  [[nodiscard]] static Place place() { return Place::kOther; }
};

void check(const ConvertCall& call);

void run(const ConvertCall& call, cpu::CpuExecutor& executor);
void run(const ConvertCall& call, gpu::GpuExecutor& executor);
void run(const ConvertCall& call, reference::ReferenceExecutor& executor);

}  // namespace fovea::ops
