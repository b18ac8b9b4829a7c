// Attention: checks, text form, and the reference in float64.
#include "ops/attention/op.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "ops/checks.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {
namespace {

using reference::at;
using reference::Vector;

/// Attention in float64, for any strides.
void attend(const AttentionProblem& problem, const AttentionOperands& operands) {
  if (problem.varlen) {
    const auto* const starts_q = pointer<const std::int32_t>(operands.cu_seqlens_q);
    const auto* const starts_k = pointer<const std::int32_t>(operands.cu_seqlens_k);
    for (std::int64_t sequence = 0; sequence < problem.batch; ++sequence) {
      AttentionProblem single = problem;
      single.varlen = false;
      single.batch = 1;
      single.queries = starts_q[sequence + 1] - starts_q[sequence];
      single.keys = starts_k[sequence + 1] - starts_k[sequence];
      const auto from = [&](Address base, std::int64_t row, const AttentionStrides& strides) {
        return base + static_cast<Address>(row * strides.row) * size_of(problem.type);
      };
      attend(single, {.q = from(operands.q, starts_q[sequence], problem.q),
                      .k = from(operands.k, starts_k[sequence], problem.k),
                      .v = from(operands.v, starts_k[sequence], problem.v),
                      .o = from(operands.o, starts_q[sequence], problem.o)});
    }
    return;
  }
  const std::int64_t width = problem.head_dim;
  const TensorView output{pointer<void>(operands.o), problem.type, {}};
  Vector y(at(width));
  for (std::int64_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      const std::int64_t kv_head = head * problem.key_heads() / problem.heads;
      const auto rows = [&](Address base, const AttentionStrides& strides, std::int64_t of_head,
                            std::int64_t count) {
        return reference::read_rows({pointer<const void>(base), problem.type, {}},
                                    sequence * strides.batch + of_head * strides.head, strides.row,
                                    count, width);
      };
      const Vector queries = rows(operands.q, problem.q, head, problem.queries);
      const Vector keys = rows(operands.k, problem.k, kv_head, problem.keys);
      const Vector values = rows(operands.v, problem.v, kv_head, problem.keys);
      for (std::int64_t query = 0; query < problem.queries; ++query) {
        const std::int64_t last =
            problem.causal ? query + problem.keys - problem.queries : problem.keys - 1;
        const std::size_t seen = at(std::max<std::int64_t>(last + 1, 0) * width);
        reference::attend_row<double>(std::span(queries).subspan(at(query * width), at(width)),
                                      std::span(keys).first(seen), std::span(values).first(seen),
                                      problem.scale, y);
        const std::int64_t to =
            sequence * problem.o.batch + head * problem.o.head + query * problem.o.row;
        for (std::int64_t i = 0; i < width; ++i) {
          reference::store(output, to + i, y[at(i)]);
        }
      }
    }
  }
}

}  // namespace

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
    return {fmt::format("{} heads are not a multiple of {} key heads", problem.heads,
                        problem.key_heads())};
  }
  if (!std::isfinite(problem.scale) || problem.scale <= 0) {
    return {fmt::format("the scale {} is not positive and finite", problem.scale)};
  }
  if ((problem.o.row == 0 && problem.queries > 1) || (problem.o.head == 0 && problem.heads > 1) ||
      (problem.o.batch == 0 && problem.batch > 1 && !problem.varlen)) {
    return {"the output has a stride of 0, so results would overlap"};
  }
  return valid_if(is_float(problem.type), "the operands do not have a float type");
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

void run(const AttentionCall& call, reference::ReferenceExecutor& /*executor*/) {
  attend(call.problem, call.operands);
}

}  // namespace fovea::ops
