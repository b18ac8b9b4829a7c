// Attention by blocks of queries, linear by oneDNN's own threads, LayerNorm by blocks of rows.
#include "cpu/operators.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/divide_up.hpp"
#include "core/thread_pool.hpp"
#include "cpu/attend.hpp"
#include "cpu/convert.hpp"
#include "cpu/isa.hpp"
#include "cpu/row_kernels.hpp"
#include "cpu/single_thread.hpp"

namespace fovea::cpu {
namespace {

/// Products are made once a shape and kept; a program whose shapes never repeat starts anew here.
constexpr std::size_t kMostShapes = 4096;
/// Queries of a head that are worked on at once: their scores stay in the nearest caches.
constexpr std::int64_t kQueryBlock = 64;
constexpr std::int64_t kRowBlock = 32;         // of LayerNorm
constexpr std::int64_t kWidenBlock = 1 << 16;  // elements

/// Products made for this many threads of oneDNN's.
std::shared_ptr<MatmulCache> shared_cache(int threads) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<MatmulCache>> caches;
  const std::lock_guard lock(mutex);
  std::shared_ptr<MatmulCache>& cache = caches[threads];
  if (!cache || cache->size() > kMostShapes) {
    cache = std::make_shared<MatmulCache>();
  }
  return cache;
}

/// The calling thread's worker, for products that `threads` of oneDNN's threads share.
Worker& worker_of(int threads) {
  struct Place {
    std::shared_ptr<MatmulCache> cache;
    std::unique_ptr<Worker> worker;
  };
  limit_isa_from_environment();  // before oneDNN's first use
  thread_local Place places[2];
  Place& place = places[threads == 1 ? 0 : 1];
  std::shared_ptr<MatmulCache> current = shared_cache(threads);
  if (current != place.cache) {
    place.worker.reset();
    place.cache = std::move(current);
    place.worker = std::make_unique<Worker>(*place.cache);
  }
  return *place.worker;
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
  share(tasks.count(), threads, [&](std::int64_t task) {
    const SingleThread single;
    tasks.run(task, worker_of(1));
  });
}

void linear(const ops::LinearProblem& problem, const ops::LinearOperands& operands, int threads) {
  Worker& worker = worker_of(threads);
  const bool bytes = problem.input == DType::kU8;
  const DType type = bytes ? DType::kF32 : product_type(problem.input);
  const std::int64_t count = problem.rows * problem.out;
  const void* const x = as_product(operands.input, problem.input, type, problem.rows * problem.in,
                                   threads, worker.wide[0]);
  const void* const weight = bytes ? scaled(problem, operands, worker.wide[1])
                                   : as_product(operands.weight, problem.input, type,
                                                problem.out * problem.in, threads, worker.wide[1]);
  const bool direct = type == problem.output;
  void* output = pointer<void>(operands.output);
  if (!direct) {
    float* const wide = grown(worker.wide[2], count);
    if (problem.epilogue == ops::Epilogue::kResidual) {
      widen(output, problem.output, count, 1.0F, wide);
    }
    output = wide;
  }

  MatmulShape shape;
  shape.rows = problem.rows;
  shape.in = problem.in;
  shape.out = problem.out;
  shape.input_stride = problem.in;
  shape.output_stride = problem.out;
  shape.b_row_stride = 1;
  shape.b_column_stride = problem.in;
  shape.epilogue = problem.epilogue;
  shape.input = type;
  shape.output = type;
  const OneDnnThreads team(threads);
  worker.caller.call(shape, x, weight, output, pointer<const float>(operands.bias));
  if (!direct) {
    narrow(static_cast<const float*>(output), count, problem.output,
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
    layer_norm(problem, operands, first, std::min(kRowBlock, problem.rows - first), worker_of(1));
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
  const bool direct = problem.output == DType::kF32 || problem.output == DType::kBF16;
  float* const wide = direct ? nullptr : grown(worker.wide[1], count);
  layer_norm({.input = static_cast<const float*>(input),
              .output = direct ? output : wide,
              .output_type = direct ? problem.output : DType::kF32,
              .weight = pointer<const float>(operands.weight),
              .bias = pointer<const float>(operands.bias),
              .rows = rows,
              .width = problem.width,
              .eps = static_cast<float>(problem.eps)});
  if (!direct) {
    narrow(wide, count, problem.output, output);
  }
}

}  // namespace fovea::cpu
