// Attention: what it prints, and what makes sense.
#include "ops/attention/op.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"

namespace fovea::ops {

std::string to_string(const AttentionProblem& problem) {
  std::string text = fmt::format("attention ({},{}", problem.batch, problem.heads);
  if (problem.key_heads() != problem.heads) {
    text += fmt::format("/{}", problem.key_heads());
  }
  text += fmt::format(",{}", problem.queries);
  if (problem.keys != problem.queries) {
    text += fmt::format("x{}", problem.keys);
  }
  return text + fmt::format(",{}){}{} {}", problem.head_dim, problem.causal ? " causal" : "",
                            problem.varlen ? " varlen" : "", to_string(problem.type));
}

Support valid(const AttentionProblem& problem) {
  if (Support sizes = valid_sizes({problem.batch, problem.heads, problem.key_heads(),
                                   problem.queries, problem.keys, problem.head_dim});
      !sizes) {
    return sizes;
  }
  if (problem.heads % problem.key_heads() != 0) {
    return {fmt::format("{} heads are no multiple of {} heads of keys", problem.heads,
                        problem.key_heads())};
  }
  if (!std::isfinite(problem.scale) || problem.scale <= 0) {
    return {fmt::format("the scale {} is not positive and finite", problem.scale)};
  }
  if ((problem.o.row == 0 && problem.queries > 1) || (problem.o.head == 0 && problem.heads > 1) ||
      (problem.o.batch == 0 && problem.batch > 1 && !problem.varlen)) {
    return {"results of stride 0 would overlap"};
  }
  return valid_if(is_float(problem.type), "the operands are not of a float type");
}

AttentionProblem packed_attention(std::int64_t images, std::int64_t tokens, std::int64_t heads,
                                  std::int64_t head_dim, double scale, DType type) {
  const std::int64_t width = heads * head_dim;
  const AttentionStrides packed{.batch = tokens * 3 * width, .row = 3 * width, .head = head_dim};
  return {.batch = images,
          .heads = heads,
          .queries = tokens,
          .keys = tokens,
          .head_dim = head_dim,
          .scale = scale,
          .type = type,
          .q = packed,
          .k = packed,
          .v = packed,
          .o = {.batch = tokens * width, .row = width, .head = head_dim}};
}

AttentionOperands packed_operands(const AttentionProblem& problem, Address qkv, Address output) {
  const Address width = static_cast<Address>(problem.hidden()) * size_of(problem.type);
  return {.q = qkv, .k = qkv + width, .v = qkv + 2 * width, .o = output};
}

AttentionCall packed_attention_call(const AttentionProblem& problem, const ConstTensorView& qkv,
                                    const TensorView& output, const ImageShapes& shapes) {
  const std::int64_t rows = problem.varlen ? shapes.rows : problem.batch * problem.queries;
  check_tensor(problem, "qkv", qkv, problem.type, {rows, 3 * problem.hidden()});
  check_tensor(problem, "output", output, problem.type, {rows, problem.hidden()});
  check_shapes(problem, problem.varlen, shapes);
  AttentionProblem packed = packed_attention(problem.batch, problem.queries, problem.heads,
                                             problem.head_dim, problem.scale, problem.type);
  packed.varlen = problem.varlen;
  if (problem != packed) {
    fail("{}: the projections are not packed", to_string(problem));
  }
  AttentionOperands operands =
      packed_operands(problem, address_of(qkv.data), address_of(output.data));
  operands.cu_seqlens_q = operands.cu_seqlens_k = shapes.starts;
  return {problem, operands};
}

void check(const AttentionCall& call) {
  check_problem(call.problem);
}

}  // namespace fovea::ops
