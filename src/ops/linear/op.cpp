// Linear layers: checks, text form, and the reference in float64.
#include "ops/linear/op.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {

using reference::at;
using reference::forward;

std::string to_string(const LinearProblem& problem) {
  return fmt::format("linear {}: [{}, {}] {}{} x [{}, {}]^T -> {}, {}", to_string(problem.place),
                     problem.rows, problem.in, to_string(problem.input),
                     problem.norm ? fmt::format(" normalised, eps {},", problem.eps) : "",
                     problem.out, problem.in, to_string(problem.output),
                     to_string(problem.epilogue));
}

Support valid(const LinearProblem& problem) {
  if (Support sizes = valid_sizes({problem.rows, problem.in, problem.out}); !sizes) {
    return sizes;
  }
  if (problem.row_scales && !takes_row_scales(problem.input)) {
    return {"only inputs of u8, i8 or e4m3 can have a scale for each row"};
  }
  if (problem.norm && (!is_float(problem.input) || !(problem.eps >= 0))) {
    return {"the input cannot be normalised: it does not have a float type, or eps is negative"};
  }
  return valid_if(problem.epilogue != Epilogue::kResidual || is_float(problem.output),
                  "residuals cannot be added to one-byte outputs");
}

void check(const LinearCall& call) {
  const LinearProblem& problem = call.problem;
  check_problem(problem);
  check_tensor(problem, "input", call.input, problem.input, {problem.rows, problem.in});
  check_tensor(problem, "output", call.output, problem.output, {problem.rows, problem.out});
  if (problem.row_scales) {
    check_tensor(problem, "the rows' scales", call.row_scales, DType::kF32, {problem.rows});
  }
}

void check_weights(const LinearWeights& weights) {
  if (!is_dim(weights.in) || !is_dim(weights.out)) {
    fail("a linear layer cannot have {} inputs and {} outputs", weights.in, weights.out);
  }
  check_length("a linear layer's weight", weights.weight.size(), weights.in * weights.out);
  check_length("a linear layer's bias", weights.bias.size(), weights.out);
  if (!weights.norm.weight.empty()) {
    check_weights(weights.norm);
    check_length("the norm before a linear layer", weights.norm.weight.size(), weights.in);
  }
}

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
