// LayerNorm: what it prints, and what makes sense.
#include "ops/layer_norm/op.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"

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
    return {"only outputs of u8, i8 and e4m3 have a scale for each row"};
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

}  // namespace fovea::ops
