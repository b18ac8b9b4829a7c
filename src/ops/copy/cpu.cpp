// Copies on the CPU.
#include <cstring>

#include "cpu/cpu_executor.hpp"
#include "ops/copy/op.hpp"

namespace fovea::ops {

void run(const CopyCall& call, cpu::CpuExecutor& executor) {
  const ConstTensorView& input = call.input;
  const std::size_t row_bytes = static_cast<std::size_t>(input.shape[1]) * size_of(input.dtype);
  executor.share_rows(input.shape[0], [&](std::int64_t first, std::int64_t rows) {
    const std::size_t offset = static_cast<std::size_t>(first) * row_bytes;
    std::memcpy(call.output.as<std::byte>() + offset, input.as<std::byte>() + offset,
                static_cast<std::size_t>(rows) * row_bytes);
  });
}

}  // namespace fovea::ops
