// Attention by blocks of queries, linear by blocks of tiles, LayerNorm by blocks of rows.
#include "cpu/operators.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/divide_up.hpp"
#include "core/thread_pool.hpp"
#include "cpu/attend.hpp"
#include "cpu/convert.hpp"
#include "cpu/isa.hpp"
#include "cpu/product.hpp"
#include "cpu/row_kernels.hpp"

namespace fovea::cpu {
namespace {

/// Queries of a head that are worked on at once: their scores stay in the nearest caches.
constexpr std::int64_t kQueryBlock = 64;
constexpr std::int64_t kRowBlock = 32;         // of LayerNorm
constexpr std::int64_t kWidenBlock = 1 << 16;  // elements

/// The calling thread's worker.
Worker& worker() {
  limit_isa_from_environment();
  thread_local Worker mine;
  return mine;
}

/// Threads that operators of this process share. A forked child has none of its parent's threads,
/// so it makes its own; the parent's pool cannot be torn down there.
ThreadPool& pool(int threads) {
  static std::mutex mutex;
  static std::map<std::pair<pid_t, int>, ThreadPool*> pools;
  const std::lock_guard lock(mutex);
  ThreadPool*& made = pools[{getpid(), threads}];
  if (made == nullptr) {
    made = new ThreadPool(threads);  // NOLINT: lives as long as the process
  }
  return *made;
}

template <typename Body>
void share(std::int64_t count, int threads, const Body& body) {
  const auto most = static_cast<int>(std::min<std::int64_t>(count, threads));
  if (most <= 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  pool(threads).parallel_for(static_cast<std::size_t>(count), [&](std::size_t index, int) {
    body(static_cast<std::int64_t>(index));
  });
}

/// The whole operand as products take it: as it is, or widened.
const void* as_product(Address data, DType from, DType to, std::int64_t count, int threads,
                       AlignedBuffer<float>& buffer) {
  const void* const numbers = pointer<const void>(data);
  if (from == to) {
    return numbers;
  }
  float* const wide = grown(buffer, count);
  share(divide_up(count, kWidenBlock), threads, [&](std::int64_t index) {
    const std::int64_t first = index * kWidenBlock;
    widen(at(numbers, first, from), from, std::min(kWidenBlock, count - first), 1.0F, wide + first);
  });
  return wide;
}

/// i8 weights times their scales.
const void* scaled(const ops::LinearProblem& problem, const ops::LinearOperands& operands,
                   AlignedBuffer<float>& buffer) {
  float* const wide = grown(buffer, problem.out * problem.in);
  for (std::int64_t o = 0; o < problem.out; ++o) {
    widen(pointer<const std::int8_t>(operands.weight) + o * problem.in, DType::kI8, problem.in,
          pointer<const float>(operands.scale)[o], wide + o * problem.in);
  }
  return wide;
}

}  // namespace

void attention(const ops::AttentionProblem& problem, const ops::AttentionOperands& operands,
               int threads) {
  const AttentionTasks tasks(problem, operands, kQueryBlock);
  share(tasks.count(), threads, [&](std::int64_t task) { tasks.run(task, worker()); });
}

void linear(const ops::LinearProblem& problem, const ops::LinearOperands& operands, int threads) {
  Worker& own = worker();  // its memory is shared by all threads here
  const bool bytes = problem.input == DType::kU8;
  const DType type = bytes ? DType::kF32 : product_type(problem.input);
  const std::int64_t count = problem.rows * problem.out;
  const void* const x = as_product(operands.input, problem.input, type, problem.rows * problem.in,
                                   threads, own.wide[0]);
  const void* const weight = bytes ? scaled(problem, operands, own.wide[1])
                                   : as_product(operands.weight, problem.input, type,
                                                problem.out * problem.in, threads, own.wide[1]);
  const bool direct = type == problem.output || problem.output == DType::kF32;
  Finish finish{.epilogue = problem.epilogue,
                .output_type = direct ? problem.output : DType::kF32,
                .output = pointer<void>(operands.output),
                .output_stride = problem.out};
  if (!direct || (problem.epilogue == ops::Epilogue::kResidual && problem.output != DType::kF32)) {
    float* const wide = grown(own.wide[2], count);
    if (problem.epilogue == ops::Epilogue::kResidual) {
      widen(finish.output, problem.output, count, 1.0F, wide);
    }
    finish.output = wide;
    finish.output_type = DType::kF32;
  }
  const TileKernel& kernel = tile_kernel(type);
  if (const auto* const bias = pointer<const float>(operands.bias); bias != nullptr) {
    const std::int64_t padded = divide_up(problem.out, kernel.columns) * kernel.columns;
    float* const whole_panels = grown(own.wide[3], padded);
    std::fill(std::copy_n(bias, problem.out, whole_panels), whole_panels + padded, 0.0F);
    finish.bias = whole_panels;
  }
  const std::int64_t depth = units_of(kernel, problem.in);
  Unit* const panels = grown(own.keys, panels_size(kernel, problem.out, depth));
  const Product product(kernel, {x, type, problem.in, problem.rows, problem.in}, panels,
                        problem.out, finish);
  share(product.column_panels(), threads, [&](std::int64_t panel) {
    const std::int64_t column = panel * kernel.columns;
    pack_columns(kernel,
                 {at(weight, column * problem.in, type), type, problem.in,
                  std::min(kernel.columns, problem.out - column), problem.in},
                 worker().converted, panels + column * depth);
  });
  run_shared(
      product, threads, [&](std::int64_t units) { return grown(own.rows, units); },
      [&](std::int64_t tasks, const auto& task) { share(tasks, threads, task); },
      []() -> auto& { return worker().converted; });
  if (finish.output_type != problem.output) {
    narrow(static_cast<const float*>(finish.output), count, problem.output,
           pointer<void>(operands.output));
  }
}

void patch_embed(const ops::PatchEmbedProblem& problem, const ops::PatchEmbedOperands& operands,
                 int threads) {
  const std::int64_t image_size = problem.tokens * problem.hidden;
  share(problem.images, threads, [&](std::int64_t image) {
    std::memcpy(at(pointer<void>(operands.output), image * image_size, problem.output),
                pointer<const void>(operands.position),
                static_cast<std::size_t>(image_size) * size_of(problem.output));
  });
  linear({.rows = problem.rows(),
          .in = problem.patch_elements,
          .out = problem.hidden,
          .epilogue = ops::Epilogue::kResidual,
          .input = problem.input,
          .output = problem.output},
         {.input = operands.patches,
          .weight = operands.weight,
          .scale = operands.scale,
          .output = operands.output},
         threads);
}

void layer_norm(const ops::LayerNormProblem& problem, const ops::LayerNormOperands& operands,
                int threads) {
  share(divide_up(problem.rows, kRowBlock), threads, [&](std::int64_t index) {
    const std::int64_t first = index * kRowBlock;
    layer_norm(problem, operands, first, std::min(kRowBlock, problem.rows - first), worker());
  });
}

void layer_norm(const ops::LayerNormProblem& problem, const ops::LayerNormOperands& operands,
                std::int64_t first, std::int64_t rows, Worker& worker) {
  const std::int64_t count = rows * problem.width;
  const void* input = at(pointer<const void>(operands.input), first * problem.width, problem.input);
  if (problem.input != DType::kF32) {
    float* const wide = grown(worker.wide[0], count);
    widen(input, problem.input, count, 1.0F, wide);
    input = wide;
  }
  void* const output = at(pointer<void>(operands.output), first * problem.width, problem.output);
  const bool direct = problem.output != DType::kF16;
  float* const wide = direct ? nullptr : grown(worker.wide[1], count);
  layer_norm(
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

}  // namespace fovea::cpu
