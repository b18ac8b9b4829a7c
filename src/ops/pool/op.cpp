// The pooling head: checks, text form, and the reference in float64.
#include "ops/pool/op.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

using reference::at;
using reference::forward;
using reference::Vector;

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
    return {fmt::format("the hidden size {} is not a multiple of {} heads", problem.hidden,
                        problem.heads)};
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
    fail("the sizes of the pooling head's layers do not match hidden size {} and {} heads", hidden,
         weights.heads);
  }
  check_length("the pooling head's keys", weights.key.size(), weights.heads * hidden);
  check_length("the pooling head's norm", weights.norm.weight.size(), hidden);
  if (!weights.input_norm.weight.empty()) {
    check_length("the norm before the pooling head", weights.input_norm.weight.size(), hidden);
  }
}

void run(const PoolCall& call, reference::ReferenceExecutor& /*executor*/) {
  const PoolProblem& problem = call.problem;
  const auto& weights = reference::kept<PoolWeights>(call.weights);
  const std::int64_t hidden = problem.hidden;
  Vector mean(at(hidden));
  for (std::int64_t image = 0; image < problem.images; ++image) {
    const auto [first, n] = reference::image_rows(problem, call.shapes, image);
    Vector x = reference::read_rows(call.input, first * hidden, hidden, n, hidden);
    for (std::int64_t token = 0; problem.norm && token < n; ++token) {
      const auto row = x.begin() + token * hidden;
      const Vector normed = forward(weights.input_norm, problem.eps, Vector(row, row + hidden));
      std::ranges::copy(normed, row);
    }
    Vector values;
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      const std::span<const float> key = weights.key.subspan(at(head * hidden), at(hidden));
      reference::attend_row<double>(Vector(key.begin(), key.end()), x, x, 1.0, mean);
      const Vector part =
          forward(weights.value, mean, head * problem.head_dim(), problem.head_dim());
      values.insert(values.end(), part.begin(), part.end());
    }
    const Vector attended = forward(weights.out, values);
    Vector inner = forward(weights.fc1, forward(weights.norm, problem.eps, attended));
    std::transform(inner.begin(), inner.end(), inner.begin(), reference::gelu_tanh);
    const Vector mlp = forward(weights.fc2, inner);
    for (std::int64_t i = 0; i < hidden; ++i) {
      reference::store(call.output, image * hidden + i, attended[at(i)] + mlp[at(i)]);
    }
  }
}

void keep(PoolWeights& weights, reference::Storage& storage) {
  storage.keep(weights.key);
  keep(weights.norm, storage);
  keep(weights.input_norm, storage);
  for (LinearWeights* const layer : {&weights.value, &weights.out, &weights.fc1, &weights.fc2}) {
    keep(*layer, storage);
  }
}

}  // namespace fovea::ops
