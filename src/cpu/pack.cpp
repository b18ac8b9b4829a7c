// Packs operands: converts them to the type that tiles multiply, and transposes 4-byte units.
#include "cpu/pack.hpp"

#include <algorithm>
#include <cstring>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "cpu/row_kernels.hpp"

namespace fovea::cpu {
namespace {

using Four [[gnu::vector_size(16)]] = Unit;

Four load_four(const std::byte* from) {
  Four four;
  std::memcpy(&four, from, sizeof(four));
  return four;
}

void store_four(Unit* to, Four four) {
  std::memcpy(to, &four, sizeof(four));
}

Unit load_unit(const std::byte* from) {
  Unit unit = 0;
  std::memcpy(&unit, from, sizeof(unit));
  return unit;
}

/// Loads four rows of four units each, `stride` bytes apart, and transposes them.
void transpose_four(const std::byte* from, std::int64_t stride, Four flips, std::int64_t width,
                    Unit* to) {
  const Four a = load_four(from) ^ flips;
  const Four b = load_four(from + stride) ^ flips;
  const Four c = load_four(from + 2 * stride) ^ flips;
  const Four d = load_four(from + 3 * stride) ^ flips;
  const Four ac0 = __builtin_shufflevector(a, c, 0, 4, 1, 5);
  const Four ac1 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Four bd0 = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  const Four bd1 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  store_four(to, __builtin_shufflevector(ac0, bd0, 0, 4, 1, 5));
  store_four(to + width, __builtin_shufflevector(ac0, bd0, 2, 6, 3, 7));
  store_four(to + 2 * width, __builtin_shufflevector(ac1, bd1, 0, 4, 1, 5));
  store_four(to + 3 * width, __builtin_shufflevector(ac1, bd1, 2, 6, 3, 7));
}

/// to[unit * width + row] = (unit `unit` of row `row`) ^ `flip`; rows lie `stride` bytes apart.
void transpose(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t units,
               Unit flip, std::int64_t width, Unit* to) {
  constexpr std::int64_t kUnit = sizeof(Unit);
  constexpr std::int64_t kBlock = 16;  // units: a cache line of each row
  const Four flips{flip, flip, flip, flip};
  for (std::int64_t first = 0; first < units; first += kBlock) {
    const std::int64_t end = std::min(units, first + kBlock);
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      const std::byte* const line = from + row * stride;
      std::int64_t unit = first;
      for (; unit + 4 <= end; unit += 4) {
        transpose_four(line + unit * kUnit, stride, flips, width, to + unit * width + row);
      }
      for (; unit < end; ++unit) {
        for (std::int64_t r = 0; r < 4; ++r) {
          to[unit * width + row + r] = load_unit(line + r * stride + unit * kUnit) ^ flip;
        }
      }
    }
    for (; row < rows; ++row) {
      for (std::int64_t unit = first; unit < end; ++unit) {
        to[unit * width + row] = load_unit(from + row * stride + unit * kUnit) ^ flip;
      }
    }
  }
}

/// Whether `type` is the operand type of tiles with these units, so that A needs no conversion.
bool is_operand_type(UnitType unit, DType type) {
  return (unit == UnitType::kF32 && type == DType::kF32) ||
         (unit == UnitType::kBF16 && type == DType::kBF16) ||
         (unit == UnitType::kU8I8 && type == DType::kU8) ||
         (unit == UnitType::kI8I8 && type == DType::kI8);
}

/// Rows of bytes that are read as units; `flip` is XORed to each unit.
struct Lines {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;  // bytes
  std::int64_t bytes = 0;   // in a row
  Unit flip = 0;
};

/// Returns `count` rows from `first` on in the type that tiles take: in place, or converted into
/// `scratch`.
Lines operand_lines(const TileKernel& kernel, const Rows& from, std::int64_t first,
                    std::int64_t count, bool is_a, AlignedBuffer<std::byte>& scratch) {
  const auto size = static_cast<std::int64_t>(size_of(from.type));
  Lines lines{.data = static_cast<const std::byte*>(from.data) + first * from.stride * size,
              .stride = from.stride * size,
              .bytes = from.width * size};
  const bool floats = kernel.type == UnitType::kF32 || kernel.type == UnitType::kBF16;
  if (is_operand_type(kernel.type, from.type) ||
      (!is_a && size == 1 && numbers_in_unit(kernel.type) == 4)) {
    return lines;
  }
  if (kernel.type == UnitType::kU8I8 && from.type == DType::kI8) {
    lines.flip = 0x80808080U;
    return lines;
  }
  const std::int64_t number =
      static_cast<std::int64_t>(sizeof(Unit)) / numbers_in_unit(kernel.type);
  std::byte* const converted = ensure_size(scratch, count * from.width * number);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::byte* const line = lines.data + row * lines.stride;
    std::byte* const to = converted + row * from.width * number;
    if (floats && from.type == DType::kU8) {
      center_pixels(reinterpret_cast<const std::uint8_t*>(line), from.width, to,
                    kernel.type == UnitType::kF32 ? DType::kF32 : DType::kBF16);
    } else if (kernel.type == UnitType::kBF16 && from.type == DType::kF32) {
      std::transform(reinterpret_cast<const float*>(line),
                     reinterpret_cast<const float*>(line) + from.width,
                     reinterpret_cast<BFloat16*>(to), to_bfloat16);
    } else if (kernel.type == UnitType::kI16 && from.type == DType::kI8) {
      std::copy_n(reinterpret_cast<const std::int8_t*>(line), from.width,
                  reinterpret_cast<std::int16_t*>(to));
    } else if (kernel.type == UnitType::kI16 && from.type == DType::kU8) {
      std::copy_n(reinterpret_cast<const std::uint8_t*>(line), from.width,
                  reinterpret_cast<std::int16_t*>(to));
    } else {
      fail("this CPU has no products for operands of {}", to_string(from.type));
    }
  }
  return {.data = converted, .stride = from.width * number, .bytes = from.width * number};
}

/// Transposes the rows of `lines` into columns of [units][width], padded with zeros.
void place_transposed(const Lines& lines, std::int64_t rows, std::int64_t units, std::int64_t width,
                      Unit* to) {
  const std::int64_t whole = lines.bytes / static_cast<std::int64_t>(sizeof(Unit));
  if (rows < width || whole < units) {
    std::fill_n(to, units * width, Unit{0});
  }
  transpose(lines.data, lines.stride, rows, whole, lines.flip, width, to);
  const auto rest = static_cast<std::size_t>(lines.bytes) % sizeof(Unit);
  for (std::int64_t row = 0; rest > 0 && row < rows; ++row) {
    Unit last = 0;
    std::memcpy(&last,
                lines.data + row * lines.stride + whole * static_cast<std::int64_t>(sizeof(Unit)),
                rest);
    to[whole * width + row] = last ^ lines.flip;  // flipped padding is multiplied by zeros of B
  }
}

/// Writes the rows of `lines` as [units / step][height][step], padded with zeros.
void place_in_steps(const Lines& lines, std::int64_t rows, std::int64_t units, std::int64_t height,
                    std::int64_t step, Unit* to) {
  const auto step_bytes = step * static_cast<std::int64_t>(sizeof(Unit));
  if (rows < height || lines.bytes < units * static_cast<std::int64_t>(sizeof(Unit))) {
    std::fill_n(to, units * height, Unit{0});
  }
  using Line [[gnu::vector_size(64)]] = Unit;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* const line = lines.data + row * lines.stride;
    auto* const out = reinterpret_cast<std::byte*>(to) + row * step_bytes;
    std::int64_t byte = 0;
    for (; byte + step_bytes <= lines.bytes; byte += step_bytes) {
      std::byte* const place = out + byte * height;
      for (std::int64_t part = 0; part < step_bytes;
           part += static_cast<std::int64_t>(sizeof(Line))) {
        Line units_of_row;
        std::memcpy(&units_of_row, line + byte + part, sizeof(Line));
        units_of_row ^= lines.flip;
        std::memcpy(place + part, &units_of_row, sizeof(Line));
      }
    }
    for (; byte < lines.bytes; ++byte) {
      const auto flip = static_cast<std::byte>(lines.flip & 0xffU);
      out[byte / step_bytes * step_bytes * height + byte % step_bytes] = line[byte] ^ flip;
    }
  }
}

}  // namespace

bool is_direct(const TileKernel& kernel, const Rows& from) {
  const auto size = static_cast<std::int64_t>(size_of(from.type));
  const auto step_bytes = kernel.step * static_cast<std::int64_t>(sizeof(Unit));
  return kernel.step > 1 && is_operand_type(kernel.type, from.type) &&
         from.width * size % step_bytes == 0 &&
         from.stride * size % static_cast<std::int64_t>(sizeof(Unit)) == 0;
}

std::int64_t unit_count(const TileKernel& kernel, std::int64_t width) {
  return divide_up(divide_up(width, numbers_in_unit(kernel.type)), kernel.step) * kernel.step;
}

std::int64_t tile_height(const TileKernel& kernel, std::int64_t remaining) {
  const auto* const found = std::ranges::lower_bound(kernel.heights, remaining);
  return found == kernel.heights.end() ? kernel.max_height() : *found;
}

std::int64_t packed_size(const TileKernel& kernel, std::int64_t rows, std::int64_t units) {
  const std::int64_t whole = rows / kernel.max_height() * kernel.max_height();
  return (whole + (rows > whole ? tile_height(kernel, rows - whole) : 0)) * units;
}

std::int64_t panels_size(const TileKernel& kernel, std::int64_t columns, std::int64_t units) {
  return divide_up(columns, kernel.columns) * kernel.columns * units;
}

void pack_rows(const TileKernel& kernel, const Rows& from, AlignedBuffer<std::byte>& scratch,
               Unit* to) {
  const std::int64_t units = unit_count(kernel, from.width);
  for (std::int64_t row = 0; row < from.rows; row += kernel.max_height()) {
    const std::int64_t height = tile_height(kernel, from.rows - row);
    const std::int64_t count = std::min(height, from.rows - row);
    const Lines lines = operand_lines(kernel, from, row, count, true, scratch);
    if (kernel.step == 1) {
      place_transposed(lines, count, units, height, to + row * units);
    } else {
      place_in_steps(lines, count, units, height, kernel.step, to + row * units);
    }
  }
}

void pack_columns(const TileKernel& kernel, const Rows& from, AlignedBuffer<std::byte>& scratch,
                  Unit* to) {
  const std::int64_t units = unit_count(kernel, from.width);
  for (std::int64_t column = 0; column < from.rows; column += kernel.columns) {
    const std::int64_t count = std::min(kernel.columns, from.rows - column);
    const Lines lines = operand_lines(kernel, from, column, count, false, scratch);
    place_transposed(lines, count, units, kernel.columns, to + column * units);
  }
}

void pack_matrix(const TileKernel& kernel, const Rows& from, Unit* to) {
  const std::int64_t units = unit_count(kernel, from.rows);
  for (std::int64_t column = 0; column < from.width; column += kernel.columns) {
    const std::int64_t count = std::min(kernel.columns, from.width - column);
    Unit* const panel = to + column * units;
    if (count < kernel.columns || numbers_in_unit(kernel.type) * units != from.rows) {
      std::fill_n(panel, units * kernel.columns, Unit{0});
    }
    if (kernel.type == UnitType::kF32) {
      const auto* const values = static_cast<const float*>(from.data) + column;
      for (std::int64_t row = 0; row < from.rows; ++row) {
        std::memcpy(panel + row * kernel.columns, values + row * from.stride,
                    static_cast<std::size_t>(count) * sizeof(float));
      }
      continue;
    }
    const auto* const values = static_cast<const std::uint16_t*>(from.data) + column;
    for (std::int64_t row = 0; row < from.rows; row += 2) {
      const std::uint16_t* const low = values + row * from.stride;
      const std::uint16_t* const high = low + from.stride;
      Unit* const out = panel + row / 2 * kernel.columns;
      if (row + 1 < from.rows) {
        for (std::int64_t c = 0; c < count; ++c) {
          out[c] = low[c] | static_cast<Unit>(high[c]) << 16;
        }
      } else {
        std::copy_n(low, count, out);
      }
    }
  }
}

}  // namespace fovea::cpu
