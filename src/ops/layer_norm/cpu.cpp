// LayerNorm on the CPU.
#include <algorithm>
#include <memory>

#include "core/convert.hpp"
#include "core/divide_up.hpp"
#include "cpu/cpu_executor.hpp"
#include "cpu/host_threads.hpp"
#include "cpu/row_kernels.hpp"
#include "ops/layer_norm/op.hpp"

namespace fovea::ops {
namespace {

// Rows per task for operators on the host.
constexpr std::int64_t kRowBlock = 32;

/// Computes rows [first, first + rows) in the calling thread.
void norm_rows(const LayerNormProblem& problem, const LayerNormOperands& operands,
               std::int64_t first, std::int64_t rows, cpu::Worker& worker) {
  const std::int64_t count = rows * problem.width;
  const void* input =
      cpu::at(pointer<const void>(operands.input), first * problem.width, problem.input);
  if (problem.input != DType::kF32) {
    float* const wide = ensure_size(worker.wide[0], count);
    widen(input, problem.input, count, 1.0F, wide);
    input = wide;
  }
  void* const output =
      cpu::at(pointer<void>(operands.output), first * problem.width, problem.output);
  const bool direct = problem.output != DType::kF16;
  float* const wide = direct ? nullptr : ensure_size(worker.wide[1], count);
  cpu::layer_norm(
      {.input = static_cast<const float*>(input),
       .output = direct ? output : wide,
       .output_type = direct ? problem.output : DType::kF32,
       .weight = pointer<const float>(operands.weight),
       .bias = pointer<const float>(operands.bias),
       .row_scale = problem.row_scales ? pointer<float>(operands.row_scale) + first : nullptr,
       .rows = rows,
       .width = problem.width,
       .eps = static_cast<float>(problem.eps)});
  if (!direct) {
    narrow(wide, count, problem.output, output);
  }
}

}  // namespace

void run(const LayerNormCall& call, cpu::CpuExecutor& executor) {
  const auto& parameters = dynamic_cast<const cpu::NormParameters&>(call.weights);
  const LayerNormOperands operands{.input = address_of(call.input.data),
                                   .weight = address_of(parameters.weight.data()),
                                   .bias = address_of(parameters.bias.data()),
                                   .output = address_of(call.output.data),
                                   .row_scale = address_of(call.row_scales.data)};
  executor.share_rows(call.problem.rows, [&](std::int64_t first, std::int64_t rows) {
    norm_rows(call.problem, operands, first, rows, executor.worker());
  });
}

PreparedPtr prepare(const LayerNormWeights& weights, const cpu::CpuTypes& /*types*/) {
  return std::make_unique<cpu::NormParameters>(weights);
}

void run(const LayerNormProblem& problem, const LayerNormOperands& operands,
         const cpu::HostThreads& threads) {
  threads.share(divide_up(problem.rows, kRowBlock), [&](std::int64_t index) {
    const std::int64_t first = index * kRowBlock;
    norm_rows(problem, operands, first, std::min(kRowBlock, problem.rows - first),
              cpu::HostThreads::worker());
  });
}

}  // namespace fovea::ops
