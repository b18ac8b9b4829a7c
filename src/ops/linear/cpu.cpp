// Linear layers on the CPU.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "core/convert.hpp"
#include "core/divide_up.hpp"
#include "cpu/cpu_executor.hpp"
#include "cpu/host_threads.hpp"
#include "cpu/isa.hpp"
#include "cpu/pack.hpp"
#include "ops/linear/op.hpp"

namespace fovea::ops {
namespace {

// Elements per task when an operand is widened.
constexpr std::int64_t kWidenBlock = 1 << 16;

/// Returns the whole operand in type `to`, in which the product is computed: unchanged or widened.
const void* converted_operand(Address data, DType from, DType to, std::int64_t count,
                              const cpu::HostThreads& threads, AlignedBuffer<float>& buffer) {
  const void* const numbers = pointer<const void>(data);
  if (from == to) {
    return numbers;
  }
  float* const wide = ensure_size(buffer, count);
  threads.share(divide_up(count, kWidenBlock), [&](std::int64_t index) {
    const std::int64_t first = index * kWidenBlock;
    widen(cpu::at(numbers, first, from), from, std::min(kWidenBlock, count - first), 1.0F,
          wide + first);
  });
  return wide;
}

/// Multiplies i8 weights by their scales.
const void* scaled_weights(const LinearProblem& problem, const LinearOperands& operands,
                           AlignedBuffer<float>& buffer) {
  float* const wide = ensure_size(buffer, problem.out * problem.in);
  for (std::int64_t o = 0; o < problem.out; ++o) {
    widen(pointer<const std::int8_t>(operands.weight) + o * problem.in, DType::kI8, problem.in,
          pointer<const float>(operands.scale)[o], wide + o * problem.in);
  }
  return wide;
}

}  // namespace

void run(const LinearCall& call, cpu::CpuExecutor& executor) {
  const LinearProblem& problem = call.problem;
  executor.multiply({dynamic_cast<const cpu::PackedWeights&>(call.weights),
                     {call.input.data, problem.input, problem.in, problem.rows, problem.in},
                     problem.epilogue,
                     problem.output,
                     call.output.data,
                     problem.out,
                     call.row_scales.as<float>()});
}

PreparedPtr prepare(const LinearWeights& weights, const cpu::CpuTypes& types) {
  return std::make_unique<cpu::PackedWeights>(
      weights, weights.input.type == DType::kI8 ? DType::kI8 : types.qkv);
}

Support can_run(const LinearProblem& problem, const cpu::CpuTypes& types) {
  if (Support support = valid(problem); !support) {
    return support;
  }
  if (problem.norm) {
    return {"a linear layer on the CPU cannot include a norm"};
  }
  if (problem.epilogue == Epilogue::kResidual && problem.output != DType::kF32) {
    return {"residuals can be added only to f32 outputs"};
  }
  if (problem.input != types.normed && problem.input != types.qkv) {
    return {fmt::format("this backend was created for {} operands, not {}", to_string(types.normed),
                        to_string(problem.input))};
  }
  if (problem.row_scales && problem.input != DType::kI8) {
    return {"only i8 inputs can have a scale for each row"};
  }
  if (problem.output != DType::kF32 && problem.output != types.qkv &&
      problem.output != types.inner) {
    return {fmt::format("this backend was created for {} outputs, not {}", to_string(types.qkv),
                        to_string(problem.output))};
  }
  return {};
}

void run(const LinearProblem& problem, const LinearOperands& operands,
         const cpu::HostThreads& threads) {
  cpu::Worker& worker = cpu::HostThreads::worker();  // its buffers are read by all threads
  const bool bytes = problem.input == DType::kU8;
  const DType type = bytes ? DType::kF32 : cpu::product_type(problem.input);
  const std::int64_t count = problem.rows * problem.out;
  const void* const x = converted_operand(operands.input, problem.input, type,
                                          problem.rows * problem.in, threads, worker.wide[0]);
  const void* const weight =
      bytes ? scaled_weights(problem, operands, worker.wide[1])
            : converted_operand(operands.weight, problem.input, type, problem.out * problem.in,
                                threads, worker.wide[1]);
  const bool direct = type == problem.output || problem.output == DType::kF32;
  cpu::Finish finish{.epilogue = problem.epilogue,
                     .output_type = direct ? problem.output : DType::kF32,
                     .output = pointer<void>(operands.output),
                     .output_stride = problem.out};
  if (!direct || (problem.epilogue == Epilogue::kResidual && problem.output != DType::kF32)) {
    float* const wide = ensure_size(worker.wide[2], count);
    if (problem.epilogue == Epilogue::kResidual) {
      widen(finish.output, problem.output, count, 1.0F, wide);
    }
    finish.output = wide;
    finish.output_type = DType::kF32;
  }
  const cpu::TileKernel& kernel = cpu::tile_kernel(type);
  if (const auto* const bias = pointer<const float>(operands.bias); bias != nullptr) {
    const std::int64_t padded = divide_up(problem.out, kernel.columns) * kernel.columns;
    float* const whole_panels = ensure_size(worker.wide[3], padded);
    std::fill(std::copy_n(bias, problem.out, whole_panels), whole_panels + padded, 0.0F);
    finish.bias = whole_panels;
  }
  const std::int64_t depth = unit_count(kernel, problem.in);
  cpu::Unit* const panels = ensure_size(worker.keys, panels_size(kernel, problem.out, depth));
  const cpu::Product product(kernel, {x, type, problem.in, problem.rows, problem.in}, panels,
                             problem.out, finish);
  threads.share(product.column_panels(), [&](std::int64_t panel) {
    const std::int64_t column = panel * kernel.columns;
    pack_columns(kernel,
                 {cpu::at(weight, column * problem.in, type), type, problem.in,
                  std::min(kernel.columns, problem.out - column), problem.in},
                 cpu::HostThreads::worker().converted, panels + column * depth);
  });
  run_shared(
      product, threads.count(), [&](std::int64_t units) { return ensure_size(worker.rows, units); },
      [&](std::int64_t tasks, const auto& task) { threads.share(tasks, task); },
      []() -> auto& { return cpu::HostThreads::worker().converted; });
  if (finish.output_type != problem.output) {
    narrow(static_cast<const float*>(finish.output), count, problem.output,
           pointer<void>(operands.output));
  }
}

}  // namespace fovea::ops
