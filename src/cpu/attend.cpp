// A block of queries: scores by one product, softmax, values by another.
#include "cpu/attend.hpp"

#include <algorithm>
#include <cstring>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "cpu/convert.hpp"
#include "cpu/row_kernels.hpp"

namespace fovea::cpu {
namespace {

constexpr std::int64_t kFloatsInLine = kBufferAlignment / sizeof(float);

}  // namespace

AttentionTasks::AttentionTasks(const ops::AttentionProblem& problem,
                               const ops::AttentionOperands& operands, std::int64_t most_queries)
    : problem_(problem), operands_(operands), most_queries_(most_queries) {
  sequences_.reserve(static_cast<std::size_t>(problem.batch));
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    Sequence& added = sequences_.emplace_back(sequence(i));
    if (added.q < 0 || added.k < 0 || added.queries < 0 || added.queries > problem.queries ||
        added.keys < 0 || added.keys > problem.keys) {
      fail("attention: sequence {} has {} queries and {} keys; 0 to {} and {} are announced", i,
           added.queries, added.keys, problem.queries, problem.keys);
    }
    added.first_task = count_;
    count_ += problem.heads * divide_up(added.queries, most_queries);
  }
}

AttentionTasks::Sequence AttentionTasks::sequence(std::int64_t index) const {
  if (!problem_.varlen) {
    return {.q = index * problem_.q.batch,
            .k = index * problem_.k.batch,
            .v = index * problem_.v.batch,
            .o = index * problem_.o.batch,
            .queries = problem_.queries,
            .keys = problem_.keys};
  }
  const auto* const queries = pointer<const std::int32_t>(operands_.cu_seqlens_q) + index;
  const auto* const keys = pointer<const std::int32_t>(operands_.cu_seqlens_k) + index;
  // Offsets rise from the first on, so that no other lies before the operands.
  if (queries[0] < 0 || keys[0] < 0) {
    fail("attention: sequence {} begins at query {} and key {}, which cannot be negative", index,
         queries[0], keys[0]);
  }
  return {.q = queries[0] * problem_.q.row,
          .k = keys[0] * problem_.k.row,
          .v = keys[0] * problem_.v.row,
          .o = queries[0] * problem_.o.row,
          .queries = std::int64_t{queries[1]} - queries[0],
          .keys = std::int64_t{keys[1]} - keys[0]};
}

/// Keys that a query of the block sees.
std::int64_t AttentionTasks::keys_seen(const Block& block, std::int64_t query) const {
  if (!problem_.causal) {
    return block.keys;
  }
  const std::int64_t diagonal = block.sequence.keys - block.sequence.queries;
  return std::clamp<std::int64_t>(block.first + query + diagonal + 1, 0, block.keys);
}

/// Rows of an operand as products take them: in place, or widened into `buffer`.
AttentionTasks::Rows AttentionTasks::rows(Address base, std::int64_t offset, std::int64_t stride,
                                          std::int64_t count, AlignedBuffer<float>& buffer) const {
  const DType type = problem_.type;
  const std::byte* const first = at(pointer<const void>(base), offset, type);
  if (product_type(type) == type) {
    return {.data = first, .stride = stride};
  }
  const std::int64_t width = problem_.head_dim;
  float* const wide = grown(buffer, count * width);
  for (std::int64_t row = 0; row < count; ++row) {
    widen(at(first, row * stride, type), type, width, 1.0F, wide + row * width);
  }
  return {.data = wide, .stride = width};
}

/// softmax of each row over the keys that it sees; zeros beyond.
void AttentionTasks::softmax_of(const Block& block, DType type, float* scores,
                                std::int64_t stride) const {
  SoftmaxArgs args{.scores = scores,
                   .output_type = type,
                   .rows = block.queries,
                   .width = block.keys,
                   .stride = stride,
                   .scale = static_cast<float>(problem_.scale)};
  if (keys_seen(block, 0) == block.keys) {
    softmax(args);
    return;
  }
  args.rows = 1;
  for (std::int64_t query = 0; query < block.queries; ++query) {
    args.scores = scores + query * stride;
    args.width = keys_seen(block, query);
    if (args.width > 0) {
      softmax(args);
    }
    std::memset(at(static_cast<void*>(args.scores), args.width, type), 0,
                static_cast<std::size_t>(block.keys - args.width) * size_of(type));
  }
}

void AttentionTasks::attend(const Block& block, Worker& worker) const {
  const ops::AttentionProblem& problem = problem_;
  const Sequence& sequence = block.sequence;
  const std::int64_t dim = problem.head_dim;
  const std::int64_t kv_head = block.head * problem.key_heads() / problem.heads;
  std::byte* const output =
      at(pointer<void>(operands_.o),
         sequence.o + block.head * problem.o.head + block.first * problem.o.row, problem.type);
  if (block.keys == 0) {
    for (std::int64_t query = 0; query < block.queries; ++query) {
      std::memset(at(output, query * problem.o.row, problem.type), 0,
                  static_cast<std::size_t>(dim) * size_of(problem.type));
    }
    return;
  }
  const DType type = product_type(problem.type);
  const Rows q =
      rows(operands_.q, sequence.q + block.head * problem.q.head + block.first * problem.q.row,
           problem.q.row, block.queries, worker.wide[0]);
  const Rows k = rows(operands_.k, sequence.k + kv_head * problem.k.head, problem.k.row, block.keys,
                      worker.wide[1]);
  const Rows v = rows(operands_.v, sequence.v + kv_head * problem.v.head, problem.v.row, block.keys,
                      worker.wide[2]);
  // Rows of scores start on cache lines.
  const std::int64_t stride = divide_up(block.keys, kFloatsInLine) * kFloatsInLine;
  float* const scores = grown(worker.scores, block.queries * stride);

  MatmulShape score;
  score.rows = block.queries;
  score.in = dim;
  score.out = block.keys;
  score.input_stride = q.stride;
  score.output_stride = stride;
  score.b_row_stride = 1;
  score.b_column_stride = k.stride;
  score.input = type;
  worker.caller.call(score, q.data, k.data, scores);

  softmax_of(block, type, scores, stride);

  const bool direct = type == problem.type;
  MatmulShape mix;
  mix.rows = block.queries;
  mix.in = block.keys;
  mix.out = dim;
  mix.input_stride = type == DType::kBF16 ? 2 * stride : stride;
  mix.output_stride = direct ? problem.o.row : dim;
  mix.b_row_stride = v.stride;
  mix.b_column_stride = 1;
  mix.input = type;
  mix.output = type;
  if (direct) {
    worker.caller.call(mix, scores, v.data, output);
    return;
  }
  float* const wide = grown(worker.wide[3], block.queries * dim);
  worker.caller.call(mix, scores, v.data, wide);
  for (std::int64_t query = 0; query < block.queries; ++query) {
    narrow(wide + query * dim, dim, problem.type, at(output, query * problem.o.row, problem.type));
  }
}

void AttentionTasks::run(std::int64_t task, Worker& worker) const {
  const auto next = std::ranges::upper_bound(sequences_, task, {}, &Sequence::first_task);
  const Sequence& sequence = *std::prev(next);
  const std::int64_t blocks = divide_up(sequence.queries, most_queries_);
  const std::int64_t number = task - sequence.first_task;
  Block block{.sequence = sequence, .head = number / blocks};
  block.first = number % blocks * most_queries_;
  block.queries = std::min(most_queries_, sequence.queries - block.first);
  block.keys = sequence.keys;
  block.keys = keys_seen(block, block.queries - 1);  // of the query that sees most
  attend(block, worker);
}

}  // namespace fovea::cpu
