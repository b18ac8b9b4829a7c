// Copies: the same values elsewhere.
#pragma once

#include "core/tensor_view.hpp"
#include "ops/devices.hpp"
#include "ops/place.hpp"

namespace fovea::ops {

/// The same values elsewhere: both [rows, width] of one type.
struct CopyCall {
  ConstTensorView input;
  TensorView output;

  [[nodiscard]] static Place place() { return Place::kOther; }
};

/// Throws fovea::Error unless the operands fit together.
void check(const CopyCall& call);

// Parts for each device; what they get is checked.
void run(const CopyCall& call, cpu::CpuExecutor& executor);
void run(const CopyCall& call, gpu::GpuExecutor& executor);
void run(const CopyCall& call, reference::ReferenceExecutor& executor);

}  // namespace fovea::ops
