// The operators on the CPU: what each thread of a team does of them.
#include "cpu/cpu_executor.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "cpu/attend.hpp"
#include "cpu/convert.hpp"
#include "cpu/operators.hpp"
#include "cpu/row_kernels.hpp"
#include "ops/position.hpp"

namespace fovea::cpu {
namespace {

using ops::Epilogue;

// Queries of a head that a thread works on at once where threads share an image.
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

template <typename T>
T* CpuExecutor::shared(PageBuffer& buffer, std::int64_t count) {
  // Operators end with a barrier, so nobody uses the old memory any more.
  if (rank_ == 0) {
    grown(buffer, static_cast<std::size_t>(count) * sizeof(T));
  }
  team_.barrier().arrive_and_wait();
  return reinterpret_cast<T*>(buffer.data());
}

void CpuExecutor::multiply(const Product& product) {
  if (team_.size() == 1) {
    product.run(worker_.rows, worker_.converted);
    return;
  }
  run_shared(
      product, team_.size(), [&](std::int64_t units) { return shared<Unit>(team_.packed, units); },
      [&](std::int64_t count, const auto& task) { share(count, task); },
      [&]() -> auto& { return worker_.converted; });
}

void CpuExecutor::resize_positions(const ops::PatchEmbedProblem& problem,
                                   std::span<const float> table, const ops::ImageShapes& shapes,
                                   std::int64_t first, std::int64_t rows, float* output) {
  const std::span starts(pointer<const std::int32_t>(shapes.starts),
                         static_cast<std::size_t>(problem.images) + 1);
  const auto* const grids = pointer<const std::int32_t>(shapes.grids);
  auto image =
      static_cast<std::size_t>(std::ranges::upper_bound(starts, first) - starts.begin()) - 1;
  for (std::int64_t row = first; row < first + rows; ++image) {
    const ops::ResizedPositions resized(
        table, problem.position_side, problem.hidden,
        {.height = grids[2 * image], .width = grids[2 * image + 1]});
    const std::int64_t end = std::min<std::int64_t>(first + rows, starts[image + 1]);
    for (; row < end; ++row) {
      resized.row(row - starts[image], output + row * problem.hidden);
    }
  }
}

void CpuExecutor::do_patch_embed(const ops::PatchEmbedProblem& problem,
                                 const ops::Prepared& weights, const ConstTensorView& patches,
                                 const TensorView& tokens, const ops::ImageShapes& shapes) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kPatchEmbed);
  const auto& parameters = as<PatchEmbedParameters>(weights);
  const std::int64_t sequence = problem.prefix + problem.tokens;
  share_rows(problem.rows(), [&](std::int64_t first, std::int64_t rows) {
    if (problem.varlen()) {
      resize_positions(problem, parameters.position.span(), shapes, first, rows,
                       tokens.as<float>());
      return;
    }
    for (std::int64_t row = first; row < first + rows; ++row) {
      const std::int64_t token = row % sequence - problem.prefix;
      const float* const start = token < 0
                                     ? parameters.prefix.data() + row % sequence * problem.hidden
                                     : parameters.position.data() + token * problem.hidden;
      std::memcpy(tokens.as<float>() + row * problem.hidden, start,
                  bytes_of(problem.hidden, DType::kF32));
    }
  });
  // The rows of all images lie side by side where there are patches alone.
  const std::int64_t parts = problem.prefix > 0 ? problem.images : 1;
  const std::int64_t rows = problem.patches() / parts;
  const std::int64_t width = problem.patch_elements;
  for (std::int64_t part = 0; part < parts; ++part) {
    multiply({*parameters.projection,
              {patches.as<std::uint8_t>() + part * rows * width, DType::kU8, width, rows, width},
              Epilogue::kResidual,
              DType::kF32,
              tokens.as<float>() + (part * sequence + problem.prefix) * problem.hidden,
              problem.hidden});
  }
}

void CpuExecutor::do_layer_norm(const ops::LayerNormProblem& problem, const ops::Prepared& weights,
                                const ConstTensorView& input, const TensorView& output,
                                const TensorView& row_scales) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kLayerNorm);
  const auto& parameters = as<NormParameters>(weights);
  const ops::LayerNormOperands operands{.input = address_of(input.data),
                                        .weight = address_of(parameters.weight.data()),
                                        .bias = address_of(parameters.bias.data()),
                                        .output = address_of(output.data),
                                        .row_scale = address_of(row_scales.data)};
  share_rows(problem.rows, [&](std::int64_t first, std::int64_t rows) {
    cpu::layer_norm(problem, operands, first, rows, worker_);
  });
}

void CpuExecutor::do_linear(const ops::LinearProblem& problem, const ops::Prepared& weights,
                            const ConstTensorView& input, const TensorView& output,
                            const ConstTensorView& row_scales) {
  stop_.poll();
  const Timer timer(worker_, problem.place);
  multiply({as<PackedWeights>(weights),
            {input.data, problem.input, problem.in, problem.rows, problem.in},
            problem.epilogue,
            problem.output,
            output.data,
            problem.out,
            row_scales.as<float>()});
}

void CpuExecutor::norm_rows(const NormParameters& norm, double eps, std::int64_t rows,
                            const float* input, std::int64_t input_stride, float* output,
                            std::int64_t output_stride) {
  share(rows, [&](std::int64_t row) {
    cpu::layer_norm({.input = input + row * input_stride,
                     .output = output + row * output_stride,
                     .weight = norm.weight.data(),
                     .bias = norm.bias.data(),
                     .rows = 1,
                     .width = static_cast<std::int64_t>(norm.weight.size()),
                     .eps = static_cast<float>(eps)});
  });
}

void CpuExecutor::do_attention(const ops::AttentionProblem& problem,
                               const ops::AttentionOperands& operands) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kAttention);
  // Heads are shared out, by many threads in parts.
  const std::int64_t parts = team_.size() == 1 ? 1 : divide_up(problem.queries, kMostQueries);
  const AttentionTasks tasks(problem, operands, divide_up(problem.queries, parts));
  share(tasks.count(), [&](std::int64_t task) { tasks.run(task, worker_); });
}

void CpuExecutor::do_pool(const ops::PoolProblem& problem, const ops::Prepared& weights,
                          const ConstTensorView& input, const TensorView& output,
                          const ops::ImageShapes& shapes) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kPool);
  const auto& parameters = as<PoolParameters>(weights);
  const std::int64_t images = problem.images;
  const std::int64_t hidden = problem.hidden;
  // Float32 throughout: a slice has few rows here, and this is where errors reach the embedding.
  const std::int64_t means_size = images * problem.heads * hidden;
  float* const means =
      shared<float>(team_.scratch, means_size + images * (2 * hidden + problem.mlp));
  float* const values = means + means_size;  // then the norm's output
  float* const inner = values + images * hidden;

  // A head's means of all images lie together, for the product with its values.
  const auto* const starts = pointer<const std::int32_t>(shapes.starts);
  share(images, [&](std::int64_t image) {
    const std::int64_t first = problem.varlen ? starts[image] : image * problem.tokens;
    const std::int64_t tokens = problem.varlen ? starts[image + 1] - first : problem.tokens;
    pool_tokens({.tokens = input.as<float>() + first * hidden,
                 .keys = parameters.keys.data(),
                 .means = means + image * hidden,
                 .mean_stride = images * hidden,
                 .scores = grown(worker_.scores, problem.heads * tokens),
                 .count = tokens,
                 .width = hidden,
                 .heads = problem.heads});
  });
  const auto rows = [&](const float* data, std::int64_t width) {
    return Rows{data, DType::kF32, width, images, width};
  };
  share(problem.heads, [&](std::int64_t head) {
    const Product product(*parameters.values[static_cast<std::size_t>(head)],
                          rows(means + head * images * hidden, hidden), Epilogue::kNone,
                          DType::kF32, values + head * problem.head_dim(), hidden);
    product.run(worker_.rows, worker_.converted);
  });
  multiply(
      {*parameters.out, rows(values, hidden), Epilogue::kNone, DType::kF32, output.data, hidden});
  norm_rows(*parameters.norm, problem.eps, images, output.as<float>(), hidden, values, hidden);
  multiply({*parameters.fc1, rows(values, hidden), Epilogue::kGeluTanh, DType::kF32, inner,
            problem.mlp});
  multiply({*parameters.fc2, rows(inner, problem.mlp), Epilogue::kResidual, DType::kF32,
            output.data, hidden});
}

void CpuExecutor::do_project(const ops::ProjectProblem& problem, const ops::Prepared& weights,
                             const ConstTensorView& input, const TensorView& output) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kPool);
  const auto& parameters = as<ProjectParameters>(weights);
  const std::int64_t hidden = problem.hidden;
  if (problem.projected == (parameters.linear == nullptr)) {
    fail("{}: its weights were prepared {} a projection", to_string(problem),
         problem.projected ? "without" : "with");
  }
  float* const normed = problem.projected ? shared<float>(team_.scratch, problem.sequences * hidden)
                                          : output.as<float>();
  norm_rows(*parameters.norm, problem.eps, problem.sequences,
            input.as<float>() + problem.token * hidden, problem.tokens * hidden, normed, hidden);
  if (!problem.projected) {
    return;
  }
  multiply({*parameters.linear,
            {normed, DType::kF32, hidden, problem.sequences, hidden},
            Epilogue::kNone,
            DType::kF32,
            output.data,
            problem.out});
}

void CpuExecutor::do_copy(const ConstTensorView& input, const TensorView& output) {
  stop_.poll();
  const std::size_t row_bytes = bytes_of(input.shape[1], input.dtype);
  share_rows(input.shape[0], [&](std::int64_t first, std::int64_t rows) {
    std::memcpy(output.as<std::byte>() + static_cast<std::size_t>(first) * row_bytes,
                input.as<std::byte>() + static_cast<std::size_t>(first) * row_bytes,
                static_cast<std::size_t>(rows) * row_bytes);
  });
}

void CpuExecutor::do_convert(const ConstTensorView& input, const TensorView& output) {
  stop_.poll();
  const Timer timer(worker_, ops::Place::kOther);
  if (input.dtype != DType::kF32) {
    fail("convert: unsupported input type {}; expected f32", to_string(input.dtype));
  }
  const std::int64_t width = input.shape[1];
  share_rows(input.shape[0], [&](std::int64_t first, std::int64_t rows) {
    narrow(input.as<float>() + first * width, rows * width, output.dtype,
           output.as<std::byte>() + bytes_of(first * width, output.dtype));
  });
}

NormParameters::NormParameters(const ops::LayerNormWeights& weights)
    : weight(weights.weight.size()), bias(weights.bias.size()) {
  std::ranges::copy(weights.weight, weight.data());
  std::ranges::copy(weights.bias, bias.data());
}

}  // namespace fovea::cpu
