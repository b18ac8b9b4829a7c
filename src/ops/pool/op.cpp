// The pooling head: what it prints, and what makes sense.
#include "ops/pool/op.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"

namespace fovea::ops {

std::string to_string(const PoolProblem& problem) {
  return fmt::format("pool: {} images, {}{} tokens of {} {}, {} heads, mlp {}, eps {}",
                     problem.images, problem.varlen ? "up to " : "", problem.tokens, problem.hidden,
                     to_string(problem.input), problem.heads, problem.mlp, problem.eps);
}

Support valid(const PoolProblem& problem) {
  if (Support sizes =
          valid_sizes({problem.images, problem.tokens, problem.heads, problem.hidden, problem.mlp});
      !sizes) {
    return sizes;
  }
  if (Support total = problem.varlen ? valid_total(problem) : Support{}; !total) {
    return total;
  }
  if (problem.hidden % problem.heads != 0) {
    return {"the heads do not divide the hidden size"};
  }
  if (!(problem.eps >= 0)) {
    return {"eps is negative"};
  }
  return valid_if(is_float(problem.input), "the input is not a float type");
}

void check(const PoolCall& call) {
  const PoolProblem& problem = call.problem;
  check_problem(problem);
  check_shapes(problem, problem.varlen, call.shapes);
  check_tensor(problem, "input", call.input, problem.input, {problem.rows(), problem.hidden});
  check_tensor(problem, "output", call.output, DType::kF32, {problem.images, problem.hidden});
}

void check_weights(const PoolWeights& weights) {
  check_weights(weights.value);
  check_weights(weights.out);
  check_weights(weights.norm);
  check_weights(weights.input_norm);
  check_weights(weights.fc1);
  check_weights(weights.fc2);
  const std::int64_t hidden = weights.value.in;
  if (weights.heads <= 0 || weights.value.out != hidden || hidden % weights.heads != 0 ||
      weights.out.in != hidden || weights.out.out != hidden || weights.fc1.in != hidden ||
      weights.fc2.out != hidden || weights.fc2.in != weights.fc1.out) {
    fail("the layers of the pooling head do not fit together at hidden size {}, {} heads", hidden,
         weights.heads);
  }
  check_length("the pooling head's keys", weights.key.size(), weights.heads * hidden);
  check_length("the pooling head's norm", weights.norm.weight.size(), hidden);
  if (!weights.input_norm.weight.empty()) {
    check_length("the norm before the pooling head", weights.input_norm.weight.size(), hidden);
  }
}

}  // namespace fovea::ops
