// The pooling head in float64.
#include <algorithm>
#include <span>

#include "ops/pool/op.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

using reference::at;
using reference::forward;
using reference::Vector;

void run(const PoolCall& call, reference::ReferenceExecutor& /*executor*/) {
  const PoolProblem& problem = call.problem;
  const auto& weights = reference::kept<PoolWeights>(call.weights);
  const std::int64_t hidden = problem.hidden;
  Vector mean(at(hidden));
  for (std::int64_t image = 0; image < problem.images; ++image) {
    const auto [first, n] = reference::rows_of(problem, call.shapes, image);
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
