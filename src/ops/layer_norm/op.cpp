// LayerNorm: checks, text form, and the reference in float64.
#include "ops/layer_norm/op.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

std::string to_string(const LayerNormProblem& problem) {
  return fmt::format("layer_norm: [{}, {}] {} -> {}, eps {}", problem.rows, problem.width,
                     to_string(problem.input), to_string(problem.output), problem.eps);
}

Support valid(const LayerNormProblem& problem) {
  if (Support sizes = valid_sizes({problem.rows, problem.width}); !sizes) {
    return sizes;
  }
  if (!(problem.eps >= 0)) {
    return {"eps is negative"};
  }
  if (problem.row_scales && !takes_row_scales(problem.output)) {
    return {"only outputs of u8, i8 or e4m3 can have a scale for each row"};
  }
  return valid_if(is_float(problem.input), "the input is not a float type");
}

void check(const LayerNormCall& call) {
  const LayerNormProblem& problem = call.problem;
  check_problem(problem);
  check_tensor(problem, "input", call.input, problem.input, {problem.rows, problem.width});
  check_tensor(problem, "output", call.output, problem.output, {problem.rows, problem.width});
  if (problem.row_scales) {
    check_tensor(problem, "the rows' scales", call.row_scales, DType::kF32, {problem.rows});
  }
}

void check_weights(const LayerNormWeights& weights) {
  check_length("a layer norm's bias", weights.bias.size(),
               static_cast<std::int64_t>(weights.weight.size()));
}

void run(const LayerNormCall& call, reference::ReferenceExecutor& /*executor*/) {
  const LayerNormProblem& problem = call.problem;
  const auto& weights = reference::kept<LayerNormWeights>(call.weights);
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    reference::store_row(call.output, row,
                         reference::forward(weights, problem.eps,
                                            reference::read_row(call.input, row, problem.width)));
  }
}

void keep(LayerNormWeights& weights, reference::Storage& storage) {
  storage.keep(weights.weight);
  storage.keep(weights.bias);
}

}  // namespace fovea::ops
