// Conversion and copying of tensors on a GPU: chooses the kernel and its grid.
#include "ops/convert/gpu.hpp"

#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/gpu_executor.hpp"
#include "kernels/convert/convert_params.hpp"
#include "ops/convert/op.hpp"

namespace fovea::gpu {
namespace {

constexpr std::int64_t kConvertBlocksPerSm = 8;  // the maximum for blocks of 256 threads

std::optional<KernelId> convert_kernel(const ConvertProblem& problem) {
  if (problem.input == DType::kBF16 && problem.output == DType::kF16) {
    return KernelId::convert_f16;
  }
  if (problem.input == DType::kBF16 && problem.output == DType::kF32) {
    return KernelId::convert_f32;
  }
  if (problem.input == DType::kF32 && problem.output == DType::kF16) {
    return KernelId::convert_f32_f16;
  }
  return std::nullopt;
}

}  // namespace

std::string to_string(const ConvertProblem& problem) {
  return fmt::format("convert {} [{},{}] -> {}", to_string(problem.input), problem.rows,
                     problem.width, to_string(problem.output));
}

Support can_run(const ConvertProblem& problem, const DeviceInfo& /*device*/) {
  if (problem.rows <= 0 || problem.width <= 0 || problem.width % convert::kUnit != 0) {
    return {fmt::format("unsupported size [{},{}]; expected rows of a multiple of {} numbers",
                        problem.rows, problem.width, convert::kUnit)};
  }
  return convert_kernel(problem)
             ? Support{}
             : Support{fmt::format(
                   "unsupported types {} -> {}; expected bf16 -> f16, bf16 -> f32 or f32 -> f16",
                   to_string(problem.input), to_string(problem.output))};
}

Launch convert_launch(const DeviceInfo& device, const ConvertProblem& problem, DevicePtr input,
                      DevicePtr output) {
  const std::optional<KernelId> kernel = convert_kernel(problem);
  if (const Support support = can_run(problem, device); !support || !kernel) {
    fail("{}: {}", to_string(problem), support.why);
  }
  const convert::Params params{.input = pointer<const void>(input),
                               .output = pointer<void>(output),
                               .count = problem.rows * problem.width};
  return {.kernel = *kernel,
          .config = resident_grid(params.count / convert::kUnit, convert::kThreads,
                                  convert::kThreads, kConvertBlocksPerSm, device),
          .params = to_bytes(params)};
}

}  // namespace fovea::gpu

namespace fovea::ops {

void run(const ConvertCall& call, gpu::GpuExecutor& executor) {
  const ConstTensorView& input = call.input;
  if (!executor.take_scratch(0)) {
    return;
  }
  if (input.dtype == call.output.dtype) {
    executor.copy_on_device(call.output, input);
    return;
  }
  executor.launch(convert_launch(executor.device().info(),
                                 {.rows = input.shape[0],
                                  .width = input.shape[1],
                                  .input = input.dtype,
                                  .output = call.output.dtype},
                                 address_of(input.data), address_of(call.output.data)));
}

}  // namespace fovea::ops
