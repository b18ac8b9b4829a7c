// Heads of one token in float64.
#include "ops/project/op.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

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
