// Linear layers in float64.
#include "ops/linear/op.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

using reference::at;
using reference::forward;

void run(const LinearCall& call, reference::ReferenceExecutor& /*executor*/) {
  const LinearProblem& problem = call.problem;
  const auto& weights = reference::kept<LinearWeights>(call.weights);
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    reference::Vector x = reference::read_row(call.input, row, problem.in);
    if (problem.norm) {
      x = forward(weights.norm, problem.eps, x);
    }
    reference::Vector y = forward(weights, x);
    for (std::int64_t o = 0; o < problem.out; ++o) {
      if (problem.epilogue == Epilogue::kGeluTanh) {
        y[at(o)] = reference::gelu_tanh(y[at(o)]);
      } else if (problem.epilogue == Epilogue::kGeluErf) {
        y[at(o)] = reference::gelu_erf(y[at(o)]);
      } else if (problem.epilogue == Epilogue::kResidual) {
        y[at(o)] += reference::load(call.output, row * problem.out + o);
      }
    }
    reference::store_row(call.output, row, y);
  }
}

void keep(LinearWeights& weights, reference::Storage& storage) {
  storage.keep(weights.weight);
  storage.keep(weights.bias);
  keep(weights.norm, storage);
}

}  // namespace fovea::ops
