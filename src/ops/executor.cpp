// Checks of every operator's operands, before a backend sees them.
#include <algorithm>

#include "core/error.hpp"
#include "ops/backend.hpp"

namespace fovea::ops {
namespace {

template <typename Problem>
void check_problem(const Problem& problem) {
  if (const Support support = valid(problem); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
}

bool fits(const ConstTensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
  const auto dims = view.shape.dims();
  return view.data != nullptr && view.dtype == dtype &&
         std::equal(dims.begin(), dims.end(), shape.begin(), shape.end());
}

// The message is made only when it is needed: this runs for every operator of every slice.
template <typename Problem>
void check(const Problem& problem, std::string_view what, const ConstTensorView& view, DType dtype,
           std::initializer_list<std::int64_t> shape) {
  if (!fits(view, dtype, shape)) {
    check_operand(to_string(problem), what, view, dtype, shape);
  }
}

}  // namespace

void Executor::patch_embed(const PatchEmbedProblem& problem, const Prepared& weights,
                           const ConstTensorView& patches, const TensorView& tokens) {
  check_problem(problem);
  check(problem, "patches", patches, DType::kU8, {problem.rows(), problem.patch_elements});
  check(problem, "tokens", tokens, problem.output, {problem.rows(), problem.hidden});
  do_patch_embed(problem, weights, patches, tokens);
}

void Executor::layer_norm(const LayerNormProblem& problem, const Prepared& weights,
                          const ConstTensorView& input, const TensorView& output,
                          const TensorView& row_scales) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows, problem.width});
  check(problem, "output", output, problem.output, {problem.rows, problem.width});
  if (problem.row_scales) {
    check(problem, "the rows' scales", row_scales, DType::kF32, {problem.rows});
  }
  do_layer_norm(problem, weights, input, output, row_scales);
}

void Executor::linear(const LinearProblem& problem, const Prepared& weights,
                      const ConstTensorView& input, const TensorView& output,
                      const ConstTensorView& row_scales) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows, problem.in});
  check(problem, "output", output, problem.output, {problem.rows, problem.out});
  if (problem.row_scales) {
    check(problem, "the rows' scales", row_scales, DType::kF32, {problem.rows});
  }
  do_linear(problem, weights, input, output, row_scales);
}

void Executor::attention(const AttentionProblem& problem, const ConstTensorView& qkv,
                         const TensorView& output) {
  const std::int64_t rows = problem.batch * problem.queries;
  check(problem, "qkv", qkv, problem.type, {rows, 3 * problem.hidden()});
  check(problem, "output", output, problem.type, {rows, problem.hidden()});
  if (problem != packed_attention(problem.batch, problem.queries, problem.heads, problem.head_dim,
                                  problem.scale, problem.type)) {
    fail("{}: the projections are not packed", to_string(problem));
  }
  attention(problem, packed_operands(problem, address_of(qkv.data), address_of(output.data)));
}

void Executor::attention(const AttentionProblem& problem, const AttentionOperands& operands) {
  check_problem(problem);
  do_attention(problem, operands);
}

void Executor::pool(const PoolProblem& problem, const Prepared& weights,
                    const ConstTensorView& input, const TensorView& output) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows(), problem.hidden});
  check(problem, "output", output, DType::kF32, {problem.images, problem.hidden});
  do_pool(problem, weights, input, output);
}

void Executor::project(const ProjectProblem& problem, const Prepared& weights,
                       const ConstTensorView& input, const TensorView& output) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows(), problem.hidden});
  check(problem, "output", output, DType::kF32, {problem.sequences, problem.out});
  do_project(problem, weights, input, output);
}

void Executor::copy(const ConstTensorView& input, const TensorView& output) {
  if (input.data == nullptr) {
    fail("copy: no memory for input");
  }
  check_operand("copy", "output", output, input.dtype, {input.shape[0], input.shape[1]});
  do_copy(input, output);
}

}  // namespace fovea::ops
