// Computes dot products of codes, per query or in tiles, and bounds on the scores from them.
#include "search/code_scan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "core/divide_up.hpp"
#include "cpu/isa.hpp"
#include "cpu/pack.hpp"
#include "cpu/product.hpp"

namespace fovea::search {
namespace {

// The maximum number of queries for which comparing them one by one is faster than tiles.
constexpr std::size_t kMaxSingleQueries = 3;
constexpr int kMaxTileCode = 127;

const cpu::TileKernel& code_kernel() {
  return cpu::tile_kernel(DType::kU8);
}

// Converts a score to float, rounding down.
float round_down(double score) {
  return std::nextafter(static_cast<float>(score), -std::numeric_limits<float>::infinity());
}

Bounds score_bounds(std::int32_t sum, const BoundTerms& a, std::size_t i, const BoundTerms& b,
                    std::size_t j) {
  const float estimate =
      static_cast<float>(sum) * a.scale[i] * b.scale[j] + a.projection[i] * b.projection[j];
  const float error = a.length[i] * b.length[j] + (a.error[i] + b.error[j]);
  return {estimate - error, estimate + error};
}

}  // namespace

CodedQueries::CodedQueries(const RowCoder& coder, const Queries& queries)
    : stride_(coder.stride()),
      count_(queries.size()),
      in_tiles_(queries.size() > kMaxSingleQueries),
      codes_(coder, queries.unit<double>(),
             in_tiles_ ? kMaxTileCode : QueryCodes::max_code(coder)) {
  if (!in_tiles_) {
    return;
  }
  const std::vector<std::int8_t> bytes(codes_.codes.begin(), codes_.codes.end());
  const cpu::TileKernel& kernel = code_kernel();
  const auto count = static_cast<std::int64_t>(count_);
  const std::int64_t units = cpu::unit_count(kernel, stride_);
  panels_ =
      AlignedBuffer<cpu::Unit>(static_cast<std::size_t>(cpu::panels_size(kernel, count, units)));
  AlignedBuffer<std::byte> scratch;
  cpu::pack_columns(kernel, {bytes.data(), DType::kI8, stride_, count, stride_}, scratch,
                    panels_.data());
}

void CodeScan::scan(const std::uint8_t* codes, const BoundTerms& terms, std::int64_t count,
                    const Floor& floor, const Hit& hit) {
  if (queries_.in_tiles_) {
    scan_tiles(codes, terms, count, floor, hit);
  } else {
    scan_singly(codes, terms, count, floor, hit);
  }
}

void CodeScan::scan_singly(const std::uint8_t* codes, const BoundTerms& terms, std::int64_t count,
                           const Floor& floor, const Hit& hit) {
  constexpr std::size_t kColumns = kMaxColumns;
  alignas(64) std::array<std::int32_t, kMaxRows + kColumns> sums{};
  alignas(64) std::array<std::int32_t, kColumns> offsets{};
  alignas(64) std::array<float, kColumns> floors{};
  const auto rows = static_cast<std::size_t>(count);
  const BoundTerms query_terms = queries_.codes_.terms.view();
  for (std::size_t query = 0; query < queries_.count_; ++query) {
    code_dots(codes, rows, static_cast<std::size_t>(queries_.stride_),
              queries_.codes_.codes.data() + query * static_cast<std::size_t>(queries_.stride_),
              sums.data());
    const std::int32_t offset = queries_.codes_.offsets[query];
    offsets.fill(offset);
    const BoundTerms line = query_terms.subspan(static_cast<std::int64_t>(query));
    for (std::size_t first = 0; first < rows; first += kColumns) {
      floors.fill(round_down(floor(query)));
      const BoundTerms columns = terms.subspan(static_cast<std::int64_t>(first));
      std::uint64_t hits = 0;
      find_hits(sums.data() + first, 1, kColumns, line, columns, offsets.data(), floors.data(),
                &hits);
      for (; hits != 0; hits &= hits - 1) {
        const auto column = static_cast<std::size_t>(std::countr_zero(hits));
        if (first + column >= rows) {
          break;
        }
        hit(query, static_cast<std::int64_t>(first + column),
            score_bounds(sums[first + column] - offset, line, 0, columns, column));
      }
    }
  }
}

void CodeScan::scan_tiles(const std::uint8_t* codes, const BoundTerms& terms, std::int64_t count,
                          const Floor& floor, const Hit& hit) {
  const cpu::TileKernel& kernel = code_kernel();
  const std::int64_t stride = queries_.stride_;
  const std::int64_t units = cpu::unit_count(kernel, stride);
  const cpu::Rows rows{codes, DType::kU8, stride, count, stride};
  const bool is_direct = cpu::is_direct(kernel, rows);
  if (!is_direct) {
    cpu::pack_rows(kernel, rows, scratch_,
                   ensure_size(packed_, cpu::packed_size(kernel, count, units)));
  }
  const cpu::RowLayout direct_layout{.row = stride / static_cast<std::int64_t>(sizeof(cpu::Unit)),
                                     .step = kernel.step};
  const cpu::TileSession session(kernel);
  alignas(64) std::array<cpu::Unit, cpu::TileKernel::kMaxTile> sums;
  std::array<std::uint64_t, cpu::TileKernel::kMaxHeight> hits{};
  alignas(64) std::array<float, kMaxColumns> floors;
  const auto columns = static_cast<std::size_t>(kernel.columns);
  for (std::size_t panel = 0; panel < queries_.count_; panel += columns) {
    const std::size_t used = std::min(columns, queries_.count_ - panel);
    floors.fill(std::numeric_limits<float>::infinity());
    for (std::size_t column = 0; column < used; ++column) {
      floors[column] = round_down(floor(panel + column));
    }
    const cpu::Unit* const b = queries_.panels_.data() + static_cast<std::int64_t>(panel) * units;
    const BoundTerms column_terms =
        queries_.codes_.terms.view().subspan(static_cast<std::int64_t>(panel));
    const std::int32_t* const offsets = queries_.codes_.offsets.data() + panel;
    for (std::int64_t row = 0; row < count; row += kernel.max_height()) {
      const std::int64_t height = cpu::tile_height(kernel, count - row);
      if (is_direct) {
        cpu::tile_function(kernel, height)(reinterpret_cast<const cpu::Unit*>(codes + row * stride),
                                           direct_layout, b, units, sums.data());
      } else {
        cpu::tile_function(kernel, height)(packed_.data() + row * units,
                                           kernel.packed_layout(height), b, units, sums.data());
      }
      const BoundTerms line_terms = terms.subspan(row);
      const auto lines = static_cast<std::size_t>(std::min(height, count - row));
      const auto* const numbers = reinterpret_cast<const std::int32_t*>(sums.data());
      find_hits(numbers, lines, columns, line_terms, column_terms, offsets, floors.data(),
                hits.data());
      for (std::size_t line = 0; line < lines; ++line) {
        for (std::uint64_t remaining_hits = hits[line]; remaining_hits != 0;
             remaining_hits &= remaining_hits - 1) {
          const auto column = static_cast<std::size_t>(std::countr_zero(remaining_hits));
          if (column >= used) {
            break;
          }
          const std::int32_t sum = numbers[line * columns + column] - offsets[column];
          hit(panel + column, row + static_cast<std::int64_t>(line),
              score_bounds(sum, line_terms, line, column_terms, column));
        }
      }
    }
  }
}

}  // namespace fovea::search
