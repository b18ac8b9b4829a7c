// Linear layers: what they print, and what makes sense.
#include "ops/linear/op.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"

namespace fovea::ops {

std::string_view to_string(Epilogue epilogue) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "gelu_tanh", "gelu_erf", "residual"};
  return kNames.at(static_cast<std::size_t>(epilogue));
}

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
    return {"only inputs of u8, i8 and e4m3 have a scale for each row"};
  }
  if (problem.norm && (!is_float(problem.input) || !(problem.eps >= 0))) {
    return {"the input cannot be normalised: it is not of a float type, or eps is negative"};
  }
  return valid_if(problem.epilogue != Epilogue::kResidual || is_float(problem.output),
                  "residuals are not added in a one-byte type");
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
    fail("a linear layer of {} inputs and {} outputs makes no sense", weights.in, weights.out);
  }
  check_length("a linear layer's weight", weights.weight.size(), weights.in * weights.out);
  check_length("a linear layer's bias", weights.bias.size(), weights.out);
  if (!weights.norm.weight.empty()) {
    check_weights(weights.norm);
    check_length("the norm before a linear layer", weights.norm.weight.size(), weights.in);
  }
}

}  // namespace fovea::ops
