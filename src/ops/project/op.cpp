// The projection of one token per sequence: checks, text form, and the reference in float64.
#include "ops/project/op.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

std::string to_string(const ProjectProblem& problem) {
  return fmt::format(
      "project: token {} of {} in {} sequences, [{}] {}{} -> f32, eps {}", problem.token,
      problem.tokens, problem.sequences, problem.hidden, to_string(problem.input),
      problem.projected ? fmt::format(" x [{}, {}]^T", problem.out, problem.hidden) : "",
      problem.eps);
}

Support valid(const ProjectProblem& problem) {
  if (Support sizes = valid_sizes({problem.sequences, problem.tokens, problem.hidden, problem.out});
      !sizes) {
    return sizes;
  }
  if (Support rows = valid_sizes({problem.rows()}); !rows) {
    return rows;
  }
  if (problem.token < 0 || problem.token >= problem.tokens) {
    return {fmt::format("there is no token {} in sequences of {}", problem.token, problem.tokens)};
  }
  if (!problem.projected && problem.out != problem.hidden) {
    return {fmt::format("without a projection the output must have {} numbers, not {}",
                        problem.hidden, problem.out)};
  }
  if (!(problem.eps >= 0)) {
    return {"eps is negative"};
  }
  return valid_if(is_float(problem.input), "the input is not a float type");
}

void check(const ProjectCall& call) {
  const ProjectProblem& problem = call.problem;
  check_problem(problem);
  check_tensor(problem, "input", call.input, problem.input, {problem.rows(), problem.hidden});
  check_tensor(problem, "output", call.output, DType::kF32, {problem.sequences, problem.out});
}

void check_weights(const ProjectWeights& weights) {
  check_weights(weights.norm);
  if (!weights.linear.weight.empty()) {
    check_weights(weights.linear);
    check_length("the norm before a projection", weights.norm.weight.size(), weights.linear.in);
  }
}

void run(const ProjectCall& call, reference::ReferenceExecutor& /*executor*/) {
  const ProjectProblem& problem = call.problem;
  const auto& weights = reference::kept<ProjectWeights>(call.weights);
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    const reference::Vector x =
        reference::read_row(call.input, sequence * problem.tokens + problem.token, problem.hidden);
    reference::Vector y = reference::forward(weights.norm, problem.eps, x);
    if (problem.projected) {
      y = reference::forward(weights.linear, y);
    }
    for (std::int64_t o = 0; o < problem.out; ++o) {
      reference::store(call.output, sequence * problem.out + o, y[reference::at(o)]);
    }
  }
}

void keep(ProjectWeights& weights, reference::Storage& storage) {
  keep(weights.norm, storage);
  keep(weights.linear, storage);
}

}  // namespace fovea::ops
