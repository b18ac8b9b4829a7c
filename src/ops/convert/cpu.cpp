// Conversion and copying of tensors on the CPU.
#include <cstring>

#include "core/convert.hpp"
#include "core/error.hpp"
#include "cpu/cpu_executor.hpp"
#include "ops/convert/op.hpp"

namespace fovea::ops {

void run(const ConvertCall& call, cpu::CpuExecutor& executor) {
  const ConstTensorView& input = call.input;
  const DType type = call.output.dtype;
  if (input.dtype != DType::kF32 && input.dtype != type) {
    fail("convert: unsupported input type {}; expected f32", to_string(input.dtype));
  }
  const std::int64_t width = input.shape[1];
  executor.share_rows(input.shape[0], [&](std::int64_t first, std::int64_t rows) {
    const std::byte* const from = cpu::at(input.data, first * width, input.dtype);
    std::byte* const to = cpu::at(call.output.data, first * width, type);
    if (input.dtype == type) {
      std::memcpy(to, from, static_cast<std::size_t>(rows * width) * size_of(type));
    } else {
      narrow(reinterpret_cast<const float*>(from), rows * width, type, to);
    }
  });
}

}  // namespace fovea::ops
