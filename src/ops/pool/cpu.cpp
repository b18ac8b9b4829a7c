// The pooling head on the CPU.
#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/cpu_executor.hpp"
#include "cpu/row_kernels.hpp"
#include "ops/pool/op.hpp"

namespace fovea::ops {
namespace {

struct PoolParameters : public Prepared {
  AlignedBuffer<float> keys;
  std::vector<std::unique_ptr<cpu::PackedWeights>> values;  // one per head
  std::unique_ptr<cpu::PackedWeights> out;
  std::unique_ptr<cpu::NormParameters> norm;
  std::unique_ptr<cpu::PackedWeights> fc1;
  std::unique_ptr<cpu::PackedWeights> fc2;
};

}  // namespace

void run(const PoolCall& call, cpu::CpuExecutor& executor) {
  const PoolProblem& problem = call.problem;
  const auto& parameters = dynamic_cast<const PoolParameters&>(call.weights);
  const std::int64_t images = problem.images;
  const std::int64_t hidden = problem.hidden;
  // Uses float32 throughout: there are few rows here, and rounding errors would directly affect the
  // embedding.
  const std::int64_t means_size = images * problem.heads * hidden;
  float* const means = executor.scratch(means_size + images * (2 * hidden + problem.mlp));
  float* const values = means + means_size;  // reused for the norm's output
  float* const inner = values + images * hidden;
  cpu::Worker& worker = executor.worker();

  // The means of a head are contiguous over all images, for the product with the value weights.
  const auto* const starts = pointer<const std::int32_t>(call.shapes.starts);
  executor.share(images, [&](std::int64_t image) {
    const std::int64_t first = problem.varlen ? starts[image] : image * problem.tokens;
    const std::int64_t tokens = problem.varlen ? starts[image + 1] - first : problem.tokens;
    cpu::pool_tokens({.tokens = call.input.as<float>() + first * hidden,
                      .keys = parameters.keys.data(),
                      .means = means + image * hidden,
                      .mean_stride = images * hidden,
                      .scores = ensure_size(worker.scores, problem.heads * tokens),
                      .count = tokens,
                      .width = hidden,
                      .heads = problem.heads});
  });
  const auto rows = [&](const float* data, std::int64_t width) {
    return cpu::Rows{data, DType::kF32, width, images, width};
  };
  executor.share(problem.heads, [&](std::int64_t head) {
    const cpu::Product product(*parameters.values[static_cast<std::size_t>(head)],
                               rows(means + head * images * hidden, hidden), Epilogue::kNone,
                               DType::kF32, values + head * problem.head_dim(), hidden);
    product.run(worker.rows, worker.converted);
  });
  auto* const output = call.output.as<float>();
  executor.multiply(
      {*parameters.out, rows(values, hidden), Epilogue::kNone, DType::kF32, output, hidden});
  executor.norm_rows(*parameters.norm, problem.eps, images, output, hidden, values, hidden);
  executor.multiply({*parameters.fc1, rows(values, hidden), Epilogue::kGeluTanh, DType::kF32, inner,
                     problem.mlp});
  executor.multiply({*parameters.fc2, rows(inner, problem.mlp), Epilogue::kResidual, DType::kF32,
                     output, hidden});
}

PreparedPtr prepare(const PoolWeights& weights, const cpu::CpuTypes& /*types*/) {
  const auto pack = [](const LinearWeights& layer) {
    return std::make_unique<cpu::PackedWeights>(layer, DType::kF32);
  };
  auto parameters = std::make_unique<PoolParameters>();
  parameters->keys = AlignedBuffer<float>(weights.key.size());
  std::ranges::copy(weights.key, parameters->keys.data());
  const std::int64_t head_dim = weights.value.out / weights.heads;
  for (std::int64_t head = 0; head < weights.heads; ++head) {
    const auto first = static_cast<std::size_t>(head * head_dim);
    const auto rows = static_cast<std::size_t>(head_dim);
    const auto in = static_cast<std::size_t>(weights.value.in);
    parameters->values.push_back(
        pack({.in = weights.value.in,
              .out = head_dim,
              .weight = weights.value.weight.subspan(first * in, rows * in),
              .bias = weights.value.bias.subspan(first, rows)}));
  }
  parameters->out = pack(weights.out);
  parameters->norm = std::make_unique<cpu::NormParameters>(weights.norm);
  parameters->fc1 = pack(weights.fc1);
  parameters->fc2 = pack(weights.fc2);
  return parameters;
}

Support can_run(const PoolProblem& problem, const cpu::CpuTypes& /*types*/) {
  if (problem.norm) {
    return {"the pooling head on the CPU cannot include the layer norm of its tokens"};
  }
  return problem.input == DType::kF32 ? valid(problem) : Support{"the input must be f32"};
}

}  // namespace fovea::ops
