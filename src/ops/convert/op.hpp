// Conversion and copying of tensors.
#pragma once

#include "ops/call.hpp"

namespace fovea::ops {

/// Copies a tensor [rows, width]: unchanged, or from the stream's type or f32 to f16 or f32,
/// rounded to nearest even. Values beyond the range of f16 become infinite.
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
