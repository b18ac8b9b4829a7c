// mma.sync.m8n8k4 of binary16: four products of 8 x 8 x 4, each by two groups of four lanes.
//
// ptxas for Hopper makes fused multiply-adds in binary32 of it, from +0 on along K, and then adds
// C.
#include "emulator/operations/quad_pairs.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "emulator/machine/warp.hpp"
#include "emulator/operations/number_formats.hpp"

namespace emu {
namespace {

constexpr std::size_t kProducts = 4;
constexpr std::size_t kLines = 8;
constexpr std::size_t kDepth = 4;
constexpr std::size_t kOperandRegisters = 2;

using Words = Vec<std::uint32_t>;

// Lanes 4 p to 4 p + 3 and 16 more hold product p.
constexpr std::size_t product_of(std::size_t lane) {
  return lane / 4 % kProducts;
}
constexpr std::size_t first_line(std::size_t lane) {
  return lane < 16 ? 0 : 4;
}

using Operand = std::array<std::array<std::array<float, kDepth>, kLines>, kProducts>;
using Sums = std::array<std::array<std::array<float, kLines>, kLines>, kProducts>;

// Reads A or B. A lane holds four elements of a line, or of one k.
Operand read_operand(const Warp& warp, std::span<const Slot> registers, bool holds_line) {
  Operand values{};
  for (std::size_t i = 0; i < 2 * registers.size(); ++i) {
    const auto words = warp.read<std::uint32_t>(registers[i / 2]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto bits = static_cast<std::uint16_t>(words.lanes[lane] >> (16 * (i % 2)));
      const std::size_t line = first_line(lane) + (holds_line ? lane % 4 : i);
      values.at(product_of(lane)).at(line).at(holds_line ? i : lane % 4) = f16_value(bits);
    }
  }
  return values;
}

struct Place {
  std::size_t row;
  std::size_t column;
};

// Place of a lane's element of C or D, whose layouts differ between binary16 and binary32.
constexpr Place place_of_sum(std::size_t lane, std::size_t i, bool is_short) {
  return is_short
             ? Place{first_line(lane) + lane % 4, i}
             : Place{first_line(lane) + lane % 2 + (i & 2U), (i & 4U) + (lane & 2U) + (i & 1U)};
}

std::size_t sum_registers(bool is_short) {
  return is_short ? 4 : 8;
}

Outcome run_quad_pairs(Warp& warp, const Op& op, Lanes lanes) {
  const QuadPairs& product = op.get<QuadPairs>();
  warp.require_all_lanes(op, lanes);
  const std::span<const Slot> list = op.list;
  const std::size_t d_registers = sum_registers(product.is_d_short);
  const auto a = list.subspan(d_registers, kOperandRegisters);
  const auto b = list.subspan(d_registers + kOperandRegisters, kOperandRegisters);
  const auto c = list.subspan(d_registers + 2 * kOperandRegisters);
  const auto require = [&](std::span<const Slot> registers, std::string_view name) {
    for (const Slot slot : registers) {
      warp.require_valid(slot, op, lanes, name);
    }
  };
  require(a, "A");
  require(b, "B");
  require(c, "C");
  const Operand x = read_operand(warp, a, product.is_a_row);
  const Operand y = read_operand(warp, b, product.is_b_column);
  Sums sums{};
  for (std::size_t i = 0; i < kLines; ++i) {
    const auto words = warp.read<std::uint32_t>(c[product.is_c_short ? i / 2 : i]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t bits = words.lanes[lane];
      const Place place = place_of_sum(lane, i, product.is_c_short);
      sums.at(product_of(lane)).at(place.row).at(place.column) =
          product.is_c_short ? f16_value(static_cast<std::uint16_t>(bits >> (16 * (i % 2))))
                             : std::bit_cast<float>(bits);
    }
  }
  std::array<Words, kLines> d{};
  for (std::size_t i = 0; i < kLines; ++i) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Place place = place_of_sum(lane, i, product.is_d_short);
      const auto& row = x.at(product_of(lane)).at(place.row);
      const auto& column = y.at(product_of(lane)).at(place.column);
      float sum = 0;
      for (std::size_t k = 0; k < kDepth; ++k) {
        sum = std::fma(row.at(k), column.at(k), sum);
      }
      sum += sums.at(product_of(lane)).at(place.row).at(place.column);
      if (product.is_d_short) {
        d.at(i / 2).lanes[lane] |= std::uint32_t{f16_bits(sum)} << (16 * (i % 2));
      } else {
        d.at(i).lanes[lane] = std::bit_cast<std::uint32_t>(canonicalize_nan(sum));
      }
    }
  }
  for (std::size_t i = 0; i < d_registers; ++i) {
    warp.write(list[i], d.at(i), lanes, kAllLanes);
  }
  return Outcome::kDone;
}

}  // namespace

void decode_quad_pairs(Decoder& decoder, const QuadPairs& product) {
  std::vector<Slot>& list = decoder.op().list;
  const auto add = [&](std::size_t operand, std::size_t count, Type type) {
    for (const syntax::Operand& part : decoder.parts(operand, count)) {
      list.push_back(operand == 0 ? decoder.destination(part, 32) : decoder.source(part, type));
    }
  };
  add(0, sum_registers(product.is_d_short), Type::kB32);
  add(1, kOperandRegisters, Type::kB32);
  add(2, kOperandRegisters, Type::kB32);
  add(3, sum_registers(product.is_c_short), product.is_c_short ? Type::kB32 : Type::kF32);
  decoder.op().details.set(product);
  decoder.op().code = &run_quad_pairs;
}

}  // namespace emu
