// Computes attention for a block of queries: tile by tile scores, softmax and weighted values, all
// in the L1 and L2 cache.
#include "cpu/attend.hpp"

#include <algorithm>
#include <cstring>

#include "core/convert.hpp"
#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "cpu/isa.hpp"
#include "cpu/row_kernels.hpp"

namespace fovea::cpu {

AttentionTasks::AttentionTasks(const ops::AttentionProblem& problem,
                               const ops::AttentionOperands& operands, std::int64_t max_queries)
    : problem_(problem), operands_(operands), max_queries_(max_queries) {
  sequences_.reserve(static_cast<std::size_t>(problem.batch));
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    Sequence& added = sequences_.emplace_back(sequence(i));
    if (added.q < 0 || added.k < 0 || added.queries < 0 || added.queries > problem.queries ||
        added.keys < 0 || added.keys > problem.keys) {
      fail("attention: sequence {} has {} queries and {} keys; the problem's maxima are {} and {}",
           i, added.queries, added.keys, problem.queries, problem.keys);
    }
    added.first_task = count_;
    count_ += problem.heads * divide_up(added.queries, max_queries);
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
  // The offsets ascend, so checking the first one suffices.
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

/// Number of keys that a query of the block attends to.
std::int64_t AttentionTasks::keys_seen(const Block& block, std::int64_t query) const {
  if (!problem_.causal) {
    return block.keys;
  }
  const std::int64_t diagonal = block.sequence.keys - block.sequence.queries;
  return std::clamp<std::int64_t>(block.first + query + diagonal + 1, 0, block.keys);
}

/// Returns rows of an operand in the type that products take: in place, or widened into `buffer`.
Rows AttentionTasks::rows(Address base, std::int64_t offset, std::int64_t stride,
                          std::int64_t count, AlignedBuffer<float>& buffer) const {
  const DType type = problem_.type;
  const std::int64_t width = problem_.head_dim;
  const std::byte* const first = at(pointer<const void>(base), offset, type);
  if (product_type(type) == type) {
    return {.data = first, .type = type, .stride = stride, .rows = count, .width = width};
  }
  float* const wide = ensure_size(buffer, count * width);
  for (std::int64_t row = 0; row < count; ++row) {
    widen(at(first, row * stride, type), type, width, 1.0F, wide + row * width);
  }
  return {.data = wide, .type = DType::kF32, .stride = width, .rows = count, .width = width};
}

/// Computes one tile of queries, starting at `block.first`, with the packed keys and values.
void AttentionTasks::attend_tile(const TileKernel& kernel, const Rows& queries, const Block& block,
                                 const Finish& finish, Worker& worker) const {
  constexpr auto kUnit = static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t rows = queries.rows;
  const std::int64_t height = tile_height(kernel, rows);
  const TileFunction multiply = tile_function(kernel, height);
  const RowLayout layout = kernel.packed_layout(height);
  const std::int64_t depth = unit_count(kernel, problem_.head_dim);
  const std::int64_t key_units = unit_count(kernel, block.keys);
  const std::int64_t panels = divide_up(block.keys, kernel.columns);
  // A row must hold the padded units of the keys or whole panels of scores, whichever is longer.
  const std::int64_t row_bytes =
      std::max(key_units * kUnit, panels * kernel.columns * kUnit / numbers_in_unit(kernel.type));
  Unit* const packed = ensure_size(worker.rows, height * std::max(depth, row_bytes / kUnit));
  const std::int64_t panel_size = height * kernel.columns;
  float* const scores = ensure_size(worker.scores, panels * panel_size);

  pack_rows(kernel, queries, worker.converted, packed);
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    multiply(packed, layout, worker.keys.data() + panel * kernel.columns * depth, depth,
             reinterpret_cast<Unit*>(scores + panel * panel_size));
  }

  std::int64_t widths[TileKernel::kMaxHeight];
  float inverse_sums[TileKernel::kMaxHeight];
  for (std::int64_t row = 0; row < rows; ++row) {
    widths[row] = keys_seen(block, row);
  }
  const std::int64_t panel_bytes = kernel.columns * kUnit / numbers_in_unit(kernel.type);
  // Where a panel is as wide as a step of A, exp_rows() writes the weights directly in packed
  // order.
  const bool in_place = panel_bytes == kernel.step * kUnit;
  std::byte* const weights = in_place ? reinterpret_cast<std::byte*>(packed)
                                      : ensure_size(worker.weights, rows * row_bytes);
  exp_rows({.scores = scores,
            .panels = panels,
            .columns = kernel.columns,
            .panel_stride = panel_size,
            .rows = rows,
            .widths = widths,
            .scale = static_cast<float>(problem_.scale),
            .output = weights,
            .output_type = queries.type,
            .output_panel_stride = in_place ? height * panel_bytes : panel_bytes,
            .output_row_stride = in_place ? panel_bytes : row_bytes,
            .inverse_sums = inverse_sums});
  if (!in_place) {
    pack_rows(kernel,
              {.data = weights,
               .type = queries.type,
               .stride = row_bytes / static_cast<std::int64_t>(size_of(queries.type)),
               .rows = rows,
               .width = block.keys},
              worker.converted, packed);
  }
  alignas(64) Unit sums[TileKernel::kMaxTile];
  for (std::int64_t column = 0; column < problem_.head_dim; column += kernel.columns) {
    multiply(packed, layout, worker.values.data() + column * key_units, key_units, sums);
    Finish part = finish;
    part.row_scale = inverse_sums;
    part.output = at(finish.output, column, finish.output_type);
    finish_tile(sums, kernel.columns, rows, std::min(kernel.columns, problem_.head_dim - column),
                part);
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
  const TileKernel& kernel = tile_kernel(type);
  const Rows q =
      rows(operands_.q, sequence.q + block.head * problem.q.head + block.first * problem.q.row,
           problem.q.row, block.queries, worker.wide[0]);
  const Rows k = rows(operands_.k, sequence.k + kv_head * problem.k.head, problem.k.row, block.keys,
                      worker.wide[1]);
  const Rows v = rows(operands_.v, sequence.v + kv_head * problem.v.head, problem.v.row, block.keys,
                      worker.wide[2]);
  pack_columns(kernel, k, worker.converted,
               ensure_size(worker.keys, panels_size(kernel, block.keys, unit_count(kernel, dim))));
  pack_matrix(kernel, v,
              ensure_size(worker.values, panels_size(kernel, dim, unit_count(kernel, block.keys))));

  const bool direct = type == problem.type;
  Finish finish{.output_type = type, .output = output, .output_stride = problem.o.row};
  if (!direct) {
    finish.output = ensure_size(worker.wide[3], block.queries * dim);
    finish.output_stride = dim;
  }
  const TileSession session(kernel);
  for (std::int64_t query = 0; query < block.queries; query += kernel.max_height()) {
    Rows tile_rows = q;
    tile_rows.data = at(q.data, query * q.stride, type);
    tile_rows.rows = std::min(kernel.max_height(), block.queries - query);
    Finish part = finish;
    part.output = at(finish.output, query * finish.output_stride, type);
    Block tile = block;
    tile.first += query;
    tile.queries = tile_rows.rows;
    attend_tile(kernel, tile_rows, tile, part, worker);
  }
  for (std::int64_t query = 0; !direct && query < block.queries; ++query) {
    narrow(worker.wide[3].data() + query * dim, dim, problem.type,
           at(output, query * problem.o.row, problem.type));
  }
}

void AttentionTasks::run(std::int64_t task, Worker& worker) const {
  const auto next = std::ranges::upper_bound(sequences_, task, {}, &Sequence::first_task);
  const Sequence& sequence = *std::prev(next);
  const std::int64_t blocks = divide_up(sequence.queries, max_queries_);
  const std::int64_t number = task - sequence.first_task;
  Block block{.sequence = sequence, .head = number / blocks};
  block.first = number % blocks * max_queries_;
  block.queries = std::min(max_queries_, sequence.queries - block.first);
  block.keys = sequence.keys;
  block.keys = keys_seen(block, block.queries - 1);  // the last query attends to the most keys
  attend(block, worker);
}

}  // namespace fovea::cpu
