// LayerNorm in float64.
#include "ops/layer_norm/op.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

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
