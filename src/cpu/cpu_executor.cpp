// The operators on the CPU: what each thread of a team does of them.
#include "cpu/cpu_executor.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/divide_up.hpp"
#include "cpu/attend.hpp"
#include "cpu/operators.hpp"
#include "cpu/row_kernels.hpp"
#include "cpu/schedule.hpp"

namespace fovea::cpu {
namespace {

using ops::Epilogue;

// Queries of a head that are worked on at once.
constexpr std::int64_t kMostQueries = 256;

std::size_t bytes_of(std::int64_t elements, DType type) {
  return static_cast<std::size_t>(elements) * size_of(type);
}

template <typename P>
const P& as(const ops::Prepared& prepared) {
  return dynamic_cast<const P&>(prepared);
}

}  // namespace

/// Adds the time of its life to the worker's account of a place.
class CpuExecutor::Timer {
 public:
  Timer(Worker& worker, ops::Place place)
      : time_(worker.times[place]), start_(std::chrono::steady_clock::now()) {}
  ~Timer() {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start_;
    ++time_.calls;
    time_.seconds += time.count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  ops::OperatorTime& time_;
  std::chrono::steady_clock::time_point start_;
};

template <typename Task>
void CpuExecutor::share_rows(std::int64_t rows, const Task& task) {
  if (team_.size() == 1) {
    task(0, rows);
    return;
  }
  const std::int64_t block = std::max<std::int64_t>(1, rows / (2 * std::int64_t{team_.size()}));
  share(divide_up(rows, block), [&](std::int64_t index) {
    const std::int64_t first = index * block;
    task(first, std::min(block, rows - first));
  });
}

std::byte* CpuExecutor::scratch(std::size_t bytes) {
  // Operators end with a barrier, so nobody uses the old memory any more.
  if (rank_ == 0) {
    grown(team_.scratch, bytes);
  }
  team_.barrier().arrive_and_wait();
  return team_.scratch.data();
}

void CpuExecutor::multiply(const PackedWeights& weights, std::int64_t rows, Epilogue epilogue,
                           DType output_type, const void* input, void* output) {
  const Grid grid = plan_grid(rows, weights.out(), team_.size());
  const std::int64_t columns = divide_up(weights.out(), grid.column_block);
  const std::int64_t blocks = divide_up(rows, grid.row_block) * columns;
  share(blocks, [&](std::int64_t index) {
    const std::int64_t row = index / columns * grid.row_block;
    const std::int64_t column = index % columns * grid.column_block;
    multiply_block(weights,
                   {.rows = std::min(grid.row_block, rows - row),
                    .first_column = column,
                    .columns = std::min(grid.column_block, weights.out() - column),
                    .output_stride = weights.out(),
                    .epilogue = epilogue,
                    .output_type = output_type},
                   at(input, row * weights.in(), weights.type()),
                   at(output, row * weights.out() + column, output_type));
  });
}

void CpuExecutor::multiply_block(const PackedWeights& weights, const Block& block,
                                 const void* input, void* output) {
  MatmulShape shape;
  shape.rows = block.rows;
  shape.out = block.columns;
  shape.input_stride = weights.in();
  shape.output_stride = block.columns;
  shape.epilogue = block.epilogue;
  shape.output = block.output_type;
  if (block.columns == block.output_stride) {
    worker_.caller.call(shape, weights, block.first_column, input, output);
    return;
  }
  // oneDNN's kernels for packed weights write dense matrices only: a block of columns goes through
  // a buffer that stays in the nearest caches.
  const bool add = block.epilogue == Epilogue::kResidual;
  if (add) {
    shape.epilogue = Epilogue::kNone;
  }
  std::byte* const dense =
      grown(worker_.block, bytes_of(block.rows * block.columns, block.output_type));
  worker_.caller.call(shape, weights, block.first_column, input, dense);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::byte* const from =
        at(static_cast<const void*>(dense), row * block.columns, block.output_type);
    std::byte* const to = at(output, row * block.output_stride, block.output_type);
    if (add) {
      add_to(reinterpret_cast<const float*>(from), block.columns, reinterpret_cast<float*>(to));
    } else {
      std::memcpy(to, from, bytes_of(block.columns, block.output_type));
    }
  }
}

void CpuExecutor::do_patch_embed(const ops::PatchEmbedProblem& problem,
                                 const ops::Prepared& weights, const ConstTensorView& patches,
                                 const TensorView& tokens) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kPatchEmbed);
  const auto& parameters = as<PatchEmbedParameters>(weights);
  const std::int64_t width = problem.patch_elements;
  std::byte* const centered = scratch(bytes_of(problem.rows() * width, activation_));
  share_rows(problem.rows(), [&](std::int64_t first, std::int64_t rows) {
    center_pixels(patches.as<std::uint8_t>() + first * width, rows * width,
                  at(centered, first * width, activation_), activation_);
    for (std::int64_t row = first; row < first + rows; ++row) {
      std::memcpy(tokens.as<float>() + row * problem.hidden,
                  parameters.position.data() + row % problem.tokens * problem.hidden,
                  bytes_of(problem.hidden, DType::kF32));
    }
  });
  multiply(*parameters.projection, problem.rows(), Epilogue::kResidual, DType::kF32, centered,
           tokens.data);
}

void CpuExecutor::do_layer_norm(const ops::LayerNormProblem& problem, const ops::Prepared& weights,
                                const ConstTensorView& input, const TensorView& output,
                                const TensorView& /*row_scales*/) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kLayerNorm);
  const auto& parameters = as<NormParameters>(weights);
  const ops::LayerNormOperands operands{.input = address_of(input.data),
                                        .weight = address_of(parameters.weight.data()),
                                        .bias = address_of(parameters.bias.data()),
                                        .output = address_of(output.data)};
  share_rows(problem.rows, [&](std::int64_t first, std::int64_t rows) {
    cpu::layer_norm(problem, operands, first, rows, worker_);
  });
}

void CpuExecutor::do_linear(const ops::LinearProblem& problem, const ops::Prepared& weights,
                            const ConstTensorView& input, const TensorView& output,
                            const ConstTensorView& /*row_scales*/) {
  stop_.poll();
  const Timer timer(worker_, problem.place);
  multiply(as<PackedWeights>(weights), problem.rows, problem.epilogue, problem.output, input.data,
           output.data);
}

void CpuExecutor::do_attention(const ops::AttentionProblem& problem,
                               const ops::AttentionOperands& operands) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kAttention);
  // Heads are shared out, in parts. The bits of a query depend on how many go through a product
  // with it, so the parts depend on the image alone, not on the threads.
  const std::int64_t parts = divide_up(problem.queries, kMostQueries);
  const AttentionTasks tasks(problem, operands, divide_up(problem.queries, parts));
  share(tasks.count(), [&](std::int64_t task) { tasks.run(task, worker_); });
}

void CpuExecutor::do_pool(const ops::PoolProblem& problem, const ops::Prepared& weights,
                          const ConstTensorView& input, const TensorView& output) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kPool);
  const auto& parameters = as<PoolParameters>(weights);
  const std::int64_t images = problem.images;
  const std::int64_t hidden = problem.hidden;
  // Float32 throughout: a slice has few rows here, and this is where errors reach the embedding.
  const std::int64_t means_size = images * problem.heads * hidden;
  auto* const means = reinterpret_cast<float*>(
      scratch(bytes_of(means_size + images * (2 * hidden + problem.mlp), DType::kF32)));
  float* const values = means + means_size;  // then the norm's output
  float* const inner = values + images * hidden;

  // A head's means of all images lie together, for the product with its values.
  share(images, [&](std::int64_t image) {
    pool_tokens({.tokens = input.as<float>() + image * problem.tokens * hidden,
                 .keys = parameters.keys.data(),
                 .means = means + image * hidden,
                 .mean_stride = images * hidden,
                 .scores = grown(worker_.scores, problem.heads * problem.tokens),
                 .count = problem.tokens,
                 .width = hidden,
                 .heads = problem.heads});
  });
  share(problem.heads, [&](std::int64_t head) {
    multiply_block(*parameters.values[static_cast<std::size_t>(head)],
                   {.rows = images, .columns = problem.head_dim(), .output_stride = hidden},
                   means + head * images * hidden, values + head * problem.head_dim());
  });
  multiply(*parameters.out, images, Epilogue::kNone, DType::kF32, values, output.data);
  share(images, [&](std::int64_t image) {
    cpu::layer_norm({.input = output.as<float>() + image * hidden,
                     .output = values + image * hidden,
                     .weight = parameters.norm->weight.data(),
                     .bias = parameters.norm->bias.data(),
                     .rows = 1,
                     .width = hidden,
                     .eps = static_cast<float>(problem.eps)});
  });
  multiply(*parameters.fc1, images, Epilogue::kGeluTanh, DType::kF32, values, inner);
  multiply(*parameters.fc2, images, Epilogue::kResidual, DType::kF32, inner, output.data);
}

NormParameters::NormParameters(const ops::LayerNormWeights& weights)
    : weight(weights.weight.size()), bias(weights.bias.size()) {
  std::ranges::copy(weights.weight, weight.data());
  std::ranges::copy(weights.bias, bias.data());
}

}  // namespace fovea::cpu
