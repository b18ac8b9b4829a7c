// Computes products in blocks of tiles: a panel of B is multiplied with all rows of a block while
// it is in the L1 or L2 cache.
#include "cpu/product.hpp"

#include <algorithm>

#include "core/divide_up.hpp"
#include "cpu/isa.hpp"
#include "cpu/worker.hpp"
#include "ops/rounding.hpp"

namespace fovea::cpu {
namespace {

/// Maximum bytes of a block's packed rows: together with a panel of B they fit into part of the L2
/// cache.
constexpr std::int64_t kBlockBytes = 448 << 10;
/// Units of the inner dimension per part, for products that can be computed in parts.
constexpr std::int64_t kMaxUnits = 1024;

bool is_integer(const TileKernel& kernel) {
  return kernel.type != UnitType::kF32 && kernel.type != UnitType::kBF16;
}

/// Copies `values` and pads with zeros up to a whole panel.
template <typename To, typename From>
AlignedBuffer<To> padded(const From& values, std::int64_t columns) {
  AlignedBuffer<To> copy(static_cast<std::size_t>(
      divide_up(static_cast<std::int64_t>(values.size()), columns) * columns));
  std::fill(std::ranges::copy(values, copy.data()).out, copy.data() + copy.size(), To{0});
  return copy;
}

/// Prefetches a tile of the output while its sums are computed: its rows are too far apart for the
/// hardware prefetcher.
void prefetch(const void* output, std::int64_t rows, std::int64_t stride, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  const auto* const first = static_cast<const std::byte*>(output);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t byte = 0; byte < bytes; byte += kLine) {
      __builtin_prefetch(first + row * stride + byte, 1);
    }
  }
}

/// A deferred call of finish_tile, or none if `sums` is null.
struct PendingFinish {
  const Unit* sums = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Finish finish{};

  void run() const {
    if (sums != nullptr) {
      finish_tile(sums, stride, rows, columns, finish);
    }
  }
};

}  // namespace

TileFunction tile_function(const TileKernel& kernel, std::int64_t height) {
  const auto* const found = std::ranges::find(kernel.heights, height);
  return kernel.functions[static_cast<std::size_t>(found - kernel.heights.begin())];
}

PackedWeights::PackedWeights(const ops::LinearWeights& weights, DType input)
    : kernel_(tile_kernel(input)),
      out_(weights.out),
      output_(weights.output),
      memory_(
          static_cast<std::size_t>(panels_size(kernel_, out_, unit_count(kernel_, weights.in))) *
          sizeof(Unit)) {
  const std::int64_t in = weights.in;
  auto* const panels = reinterpret_cast<Unit*>(memory_.data());
  AlignedBuffer<std::byte> scratch;
  if (!is_integer(kernel_)) {
    bias_ = padded<float>(weights.bias, kernel_.columns);
    pack_columns(kernel_, {weights.weight.data(), DType::kF32, in, out_, in}, scratch, panels);
    return;
  }
  const ops::RoundedLinear rounded = ops::round_to_i8(weights);
  bias_ = padded<float>(rounded.bias, kernel_.columns);
  column_scale_ = padded<float>(rounded.scale, kernel_.columns);
  if (kernel_.type == UnitType::kU8I8 && input == DType::kI8) {
    std::vector<std::int32_t> offsets(rounded.sum.size());
    std::ranges::transform(rounded.sum, offsets.begin(),
                           [](std::int32_t sum) { return kByteOffset * sum; });
    column_offset_ = padded<std::int32_t>(offsets, kernel_.columns);
  }
  pack_columns(kernel_, {rounded.weight.data(), DType::kI8, in, out_, in}, scratch, panels);
}

Finish PackedWeights::finish() const {
  Finish finish{.bias = bias_.data()};
  if (is_integer(kernel_)) {
    finish.integers = true;
    finish.column_scale = column_scale_.data();
    finish.column_offset = column_offset_.empty() ? nullptr : column_offset_.data();
  }
  if (output_.type == DType::kI8) {
    finish.output_scale = 1.0F / output_.scale;
    finish.output_offset = static_cast<float>(output_.offset);
  }
  return finish;
}

Product::Product(const TileKernel& tiles, const Rows& input, const Unit* b, std::int64_t columns,
                 const Finish& end)
    : kernel(tiles),
      a(input),
      panels(b),
      panel_units(unit_count(tiles, input.width)),
      out(columns),
      finish(end) {}

Product::Product(const PackedWeights& weights, const Rows& input, ops::Epilogue epilogue,
                 DType output_type, void* output, std::int64_t output_stride,
                 const float* row_scale)
    : Product(weights.kernel(), input, weights.panels(), weights.out(), weights.finish()) {
  finish.epilogue = epilogue;
  finish.output_type = output_type;
  finish.output = output;
  finish.output_stride = output_stride;
  finish.row_scale = row_scale;
}

std::int64_t Product::row_tiles() const {
  return divide_up(a.rows, kernel.max_height());
}

std::int64_t Product::column_panels() const {
  return divide_up(out, kernel.columns);
}

std::int64_t Product::rows_in_cache() const {
  const std::int64_t tile_bytes =
      kernel.max_height() * units() * static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t limit = std::max<std::int64_t>(1, kBlockBytes / tile_bytes);
  const std::int64_t tiles = divide_up(row_tiles(), divide_up(row_tiles(), limit));  // equal blocks
  return tiles * kernel.max_height();
}

std::int64_t Product::parts() const {
  return finish.epilogue == ops::Epilogue::kResidual ? divide_up(panel_units, kMaxUnits) : 1;
}

Product Product::part(std::int64_t index) const {
  const std::int64_t part_units =
      divide_up(divide_up(panel_units, parts()), kernel.step) * kernel.step;
  const std::int64_t numbers = part_units * numbers_in_unit(kernel.type);
  const std::int64_t first = index * numbers;
  Product product = *this;
  product.a.data = at(a.data, first, a.type);
  product.a.width = std::min(numbers, a.width - first);
  product.panels = panels + index * part_units * kernel.columns;
  if (index > 0) {
    product.finish.bias = nullptr;
    product.finish.column_offset = nullptr;
  }
  return product;
}

Product Product::rows(std::int64_t first, std::int64_t count) const {
  Product product = *this;
  product.a.data = at(a.data, first * a.stride, a.type);
  product.a.rows = std::min(count, a.rows - first);
  product.finish.output = at(finish.output, first * finish.output_stride, finish.output_type);
  product.finish.row_scale = finish.row_scale == nullptr ? nullptr : finish.row_scale + first;
  product.packed = packed == nullptr ? nullptr : packed + first * units();
  return product;
}

void Product::pack(std::int64_t first, std::int64_t count,
                   AlignedBuffer<std::byte>& scratch) const {
  const std::int64_t height = kernel.max_height();
  const std::int64_t whole = is_direct(kernel, a) ? a.rows / height * height : 0;
  const std::int64_t row = std::max(whole, first * height);
  const std::int64_t end = std::min((first + count) * height, a.rows);
  if (row < end) {
    const Product rest = rows(row, end - row);
    pack_rows(kernel, rest.a, scratch, rest.packed);
  }
}

void Product::multiply(std::int64_t first, std::int64_t count, std::int64_t first_panel,
                       std::int64_t panel_count) const {
  const TileSession session(kernel);
  const std::int64_t depth = units();
  const std::int64_t first_row = first * kernel.max_height();
  const std::int64_t end_row = std::min(a.rows, first_row + count * kernel.max_height());
  const auto output_size = static_cast<std::int64_t>(size_of(finish.output_type));
  const bool direct = is_direct(kernel, a);
  const RowLayout direct_layout{.row = a.stride * static_cast<std::int64_t>(size_of(a.type)) /
                                       static_cast<std::int64_t>(sizeof(Unit)),
                                .step = kernel.step};
  // The sums of a tile are finished while those of the next one are computed, because data stored
  // from tile registers cannot be read immediately.
  alignas(64) Unit sums[2][TileKernel::kMaxTile];
  int current = 0;
  PendingFinish pending;
  for (std::int64_t panel = first_panel; panel < first_panel + panel_count; ++panel) {
    const std::int64_t column = panel * kernel.columns;
    const Unit* const b = panels + column * panel_units;
    Finish part = finish;
    part.bias = finish.bias == nullptr ? nullptr : finish.bias + column;
    part.column_scale = finish.column_scale == nullptr ? nullptr : finish.column_scale + column;
    part.column_offset = finish.column_offset == nullptr ? nullptr : finish.column_offset + column;
    for (std::int64_t row = first_row; row < end_row; row += kernel.max_height()) {
      const std::int64_t height = tile_height(kernel, a.rows - row);
      const std::int64_t rows = std::min(height, a.rows - row);
      const std::int64_t columns = std::min(kernel.columns, out - column);
      part.row_scale = finish.row_scale == nullptr ? nullptr : finish.row_scale + row;
      part.output = at(finish.output, row * finish.output_stride + column, finish.output_type);
      prefetch(part.output, rows, finish.output_stride * output_size, columns * output_size);
      if (direct && rows == kernel.max_height()) {
        const std::byte* const from = at(a.data, row * a.stride, a.type);
        tile_function(kernel, height)(reinterpret_cast<const Unit*>(from), direct_layout, b, depth,
                                      sums[current]);
      } else {
        tile_function(kernel, height)(packed + row * depth, kernel.packed_layout(height), b, depth,
                                      sums[current]);
      }
      pending.run();
      pending = {sums[current], kernel.columns, rows, columns, part};
      current = 1 - current;
    }
  }
  pending.run();
}

void Product::run(AlignedBuffer<Unit>& memory, AlignedBuffer<std::byte>& scratch) const {
  for (std::int64_t index = 0; index < parts(); ++index) {
    const Product inner_part = part(index);
    const std::int64_t block = inner_part.rows_in_cache();
    for (std::int64_t row = 0; row < a.rows; row += block) {
      Product rows_part = inner_part.rows(row, block);
      rows_part.packed = ensure_size(memory, rows_part.packed_units());
      rows_part.pack(0, rows_part.row_tiles(), scratch);
      rows_part.multiply(0, rows_part.row_tiles(), 0, rows_part.column_panels());
    }
  }
}

}  // namespace fovea::cpu
