// Results in another type on the CPU.
#include "core/error.hpp"
#include "cpu/convert.hpp"
#include "cpu/cpu_executor.hpp"
#include "ops/convert/op.hpp"

namespace fovea::ops {

void run(const ConvertCall& call, cpu::CpuExecutor& executor) {
  const ConstTensorView& input = call.input;
  const DType type = call.output.dtype;
  if (input.dtype != DType::kF32) {
    fail("convert: unsupported input type {}; expected f32", to_string(input.dtype));
  }
  const std::int64_t width = input.shape[1];
  executor.share_rows(input.shape[0], [&](std::int64_t first, std::int64_t rows) {
    cpu::narrow(input.as<float>() + first * width, rows * width, type,
                cpu::at(call.output.data, first * width, type));
  });
}

}  // namespace fovea::ops
