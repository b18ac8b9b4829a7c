// Attention in float64, strides and all.
#include <algorithm>
#include <span>

#include "ops/attention/op.hpp"
#include "ops/reference/reference_backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/reference/tensors.hpp"

namespace fovea::ops {
namespace {

using reference::at;
using reference::Vector;

void attend(const AttentionProblem& problem, const AttentionOperands& operands) {
  if (problem.varlen) {
    const auto* const starts_q = pointer<const std::int32_t>(operands.cu_seqlens_q);
    const auto* const starts_k = pointer<const std::int32_t>(operands.cu_seqlens_k);
    for (std::int64_t sequence = 0; sequence < problem.batch; ++sequence) {
      AttentionProblem one = problem;
      one.varlen = false;
      one.batch = 1;
      one.queries = starts_q[sequence + 1] - starts_q[sequence];
      one.keys = starts_k[sequence + 1] - starts_k[sequence];
      const auto from = [&](Address base, std::int64_t row, const AttentionStrides& strides) {
        return base + static_cast<Address>(row * strides.row) * size_of(problem.type);
      };
      attend(one, {.q = from(operands.q, starts_q[sequence], problem.q),
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

void run(const AttentionCall& call, reference::ReferenceExecutor& /*executor*/) {
  attend(call.problem, call.operands);
}

}  // namespace fovea::ops
