// Warp-level matrix products, and loads and stores of their fragments: mma.sync, ldmatrix,
// stmatrix.
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/tensor_arithmetic.hpp"

namespace emu {
namespace {

constexpr std::size_t kRows = 16;  // rows of m16n8
constexpr std::size_t kColumns = 8;
// Precision on Hopper, which adds all 16 products of a step at once.
constexpr Precision kPrecision{.sum_bits = 25, .result_bits = 23};

using Words = Vec<std::uint32_t>;

// Reads the registers of A (four) or B (two), whose words hold consecutive elements along K, into
// lines of 32 bytes: rows of A, or columns of B.
template <typename Bits, std::size_t kLines, typename Decode>
auto read_lines(const Warp& warp, std::span<const Slot> registers, Decode&& decode) {
  constexpr std::size_t kPerWord = 4 / sizeof(Bits);
  std::array<std::array<decltype(decode(Bits{})), 8 * kPerWord>, kLines> lines;
  for (std::size_t i = 0; i < registers.size(); ++i) {
    const auto words = warp.read<std::uint32_t>(registers[i]);
    const std::size_t line = kLines == kRows ? i % 2 * 8 : 0;
    const std::size_t half = kLines == kRows ? i / 2 : i;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t part = 0; part < kPerWord; ++part) {
        lines.at(line + lane / 4).at((half * 4 + lane % 4) * kPerWord + part) =
            decode(static_cast<Bits>(words.lanes[lane] >> (8 * sizeof(Bits) * part)));
      }
    }
  }
  return lines;
}

// Computes D: sum(row of A, column of B, element of C) for each element. `list`: four registers for
// D, four for A, two for B, four for C.
template <typename Bits, typename DecodeA, typename DecodeB, typename Sum>
Outcome multiply(Warp& warp, const Op& op, Lanes lanes, DecodeA&& decode_a, DecodeB&& decode_b,
                 Sum&& sum) {
  warp.require_all_lanes(op, lanes);
  for (std::size_t i = 4; i < op.list.size(); ++i) {
    warp.require_valid(op.list[i], op, lanes, i < 8 ? "A" : i < 10 ? "B" : "C");
  }
  const std::span<const Slot> list = op.list;
  const auto a = read_lines<Bits, kRows>(warp, list.subspan(4, 4), decode_a);
  const auto b = read_lines<Bits, kColumns>(warp, list.subspan(8, 2), decode_b);
  std::array<Words, 4> d;
  for (std::size_t i = 0; i < d.size(); ++i) {
    const auto c = warp.read<std::uint32_t>(list[10 + i]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      d.at(i).lanes[lane] =
          sum(a.at(lane / 4 + i / 2 * 8), b.at(lane % 4 * 2 + i % 2), c.lanes[lane]);
    }
  }
  for (std::size_t i = 0; i < d.size(); ++i) {
    warp.write(list[i], d.at(i), lanes, kAllLanes);
  }
  return Outcome::kDone;
}

template <Parts (*kParts)(std::uint16_t)>
Outcome run_float_product(Warp& warp, const Op& op, Lanes lanes) {
  return multiply<std::uint16_t>(warp, op, lanes, kParts, kParts,
                                 [](const auto& row, const auto& column, std::uint32_t c) {
                                   return std::bit_cast<std::uint32_t>(
                                       fused_sum(row, column, std::bit_cast<float>(c), kPrecision));
                                 });
}

// m16n8k32 with 8-bit integers, four per word. Sums wrap around.
template <typename A, typename B>
Outcome run_byte_product(Warp& warp, const Op& op, Lanes lanes) {
  const auto sum = [](const auto& row, const auto& column, std::uint32_t c) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      c += static_cast<std::uint32_t>(row.at(k) * column.at(k));
    }
    return c;
  };
  return multiply<std::uint8_t>(
      warp, op, lanes, [](std::uint8_t bits) { return int{static_cast<A>(bits)}; },
      [](std::uint8_t bits) { return int{static_cast<B>(bits)}; }, sum);
}

void add_vector(Decoder& decoder, std::size_t index, std::size_t count, Type type, bool is_result) {
  for (const syntax::Operand& part : decoder.parts(index, count)) {
    decoder.op().list.push_back(is_result ? decoder.destination(part, bits_of(type))
                                          : decoder.source(part, type));
  }
}

void decode_mma(Decoder& decoder) {
  decoder.require("sync");
  decoder.require("aligned");
  decoder.require("row");
  decoder.require("col");
  const std::string_view shape = decoder.take_one_of({"m16n8k16", "m16n8k32"});
  const Type d = decoder.take_type();
  const Type a = decoder.take_type();
  const Type b = decoder.take_type();
  const Type c = decoder.take_type();
  decoder.expect_operands(4);
  Code& code = decoder.op().code;
  const bool is_float = d == Type::kF32 && c == Type::kF32 && a == b && shape == "m16n8k16";
  const bool is_bytes = d == Type::kS32 && c == Type::kS32 && shape == "m16n8k32";
  if (is_float && a == Type::kF16) {
    code = &run_float_product<&parts_of_f16>;
  } else if (is_float && a == Type::kBF16) {
    code = &run_float_product<&parts_of_bf16>;
  } else if (is_bytes && a == Type::kS8 && b == Type::kS8) {
    code = &run_byte_product<std::int8_t, std::int8_t>;
  } else if (is_bytes && a == Type::kS8 && b == Type::kU8) {
    code = &run_byte_product<std::int8_t, std::uint8_t>;
  } else if (is_bytes && a == Type::kU8 && b == Type::kS8) {
    code = &run_byte_product<std::uint8_t, std::int8_t>;
  } else {
    decoder.fail("unsupported product");
  }
  const Type result = is_float ? Type::kF32 : Type::kB32;
  add_vector(decoder, 0, 4, result, true);
  add_vector(decoder, 1, 4, Type::kB32, false);
  add_vector(decoder, 2, 2, Type::kB32, false);
  add_vector(decoder, 3, 4, result, false);
}

// Matrices of 8 rows of 16 bytes; eight lanes give the addresses of a matrix's rows. Lane l holds,
// in its register, the elements in row l / 4 and columns l % 4 * 2 and l % 4 * 2 + 1; transposed,
// rows and columns are swapped.
constexpr std::size_t kRowBytes = 16;

struct Element {
  std::size_t row;
  std::size_t column;
};

Element element_of(std::size_t lane, std::size_t half, bool is_transposed) {
  const Element element{lane / 4, lane % 4 * 2 + half};
  return is_transposed ? Element{element.column, element.row} : element;
}

// Slots: the address. `list`: a register for each matrix.
struct MatrixMove {
  AddressOperand address{};
  std::uint8_t count = 1;  // number of matrices
  bool is_transposed = false;

  [[nodiscard]] Lanes addressing_lanes() const {
    return count == 4 ? kAllLanes : (Lanes{1} << (count * 8U)) - 1;
  }
};

Memory matrix_row(Warp& warp, const Op& op, std::size_t matrix, std::size_t row) {
  const int lane = static_cast<int>(matrix * 8 + row);
  return resolve(warp, op, lane, MemorySpace::kShared,
                 address_of(warp, op.get<MatrixMove>().address, lane), kRowBytes);
}

Outcome run_ldmatrix(Warp& warp, const Op& op, Lanes lanes) {
  const MatrixMove& move = op.get<MatrixMove>();
  warp.require_all_lanes(op, lanes);
  warp.require_valid(op.slots[0], op, move.addressing_lanes(), "the address");
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op);
  std::array<std::array<Memory, 8>, 4> matrices;
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    for (std::size_t row = 0; row < 8; ++row) {
      const Memory memory = matrix_row(warp, op, matrix, row);
      matrices.at(matrix).at(row) = memory;
      accesses.add(memory, kRowBytes);
      lane_accesses.check(static_cast<int>(matrix * 8 + row), memory, kRowBytes, false);
    }
  }
  accesses.check_read();
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    const std::array<Memory, 8>& rows = matrices.at(matrix);
    Words d{};
    Lanes valid = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      bool is_valid = true;
      for (std::size_t half = 0; half < 2; ++half) {
        const Element element = element_of(lane, half, move.is_transposed);
        const Memory& row = rows.at(element.row);
        std::uint16_t value = 0;
        std::memcpy(&value, row.bytes + element.column * 2, 2);
        d.lanes[lane] |= std::uint32_t{value} << (16 * half);
        is_valid = is_valid && row.is_written(element.column * 2, 2);
      }
      valid |= Lanes{is_valid} << lane;
    }
    warp.write(op.list[matrix], d, lanes, valid);
  }
  return Outcome::kDone;
}

Outcome run_stmatrix(Warp& warp, const Op& op, Lanes lanes) {
  const MatrixMove& move = op.get<MatrixMove>();
  warp.require_all_lanes(op, lanes);
  warp.require_valid(op.slots[0], op, move.addressing_lanes(), "the address");
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op);
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    const auto a = warp.read<std::uint32_t>(op.list[matrix]);
    const Lanes valid = warp.valid(op.list[matrix]);
    std::array<Memory, 8> rows;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      rows.at(row) = matrix_row(warp, op, matrix, row);
      accesses.add(rows.at(row), kRowBytes);
      lane_accesses.record(races::LaneShadow::kWholeWarp, rows.at(row), kRowBytes, true);
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t half = 0; half < 2; ++half) {
        const Element element = element_of(lane, half, move.is_transposed);
        const auto value = static_cast<std::uint16_t>(a.lanes[lane] >> (16 * half));
        std::memcpy(rows.at(element.row).bytes + element.column * 2, &value, 2);
        rows.at(element.row).set_written(element.column * 2, 2, (valid >> lane & 1U) != 0);
      }
    }
  }
  accesses.check_write();
  if (accesses.overlap()) {
    report_differing_lanes(warp, op, lanes);
  }
  return Outcome::kDone;
}

template <bool kIsLoad>
void decode_matrices(Decoder& decoder) {
  decoder.require("sync");
  decoder.require("aligned");
  decoder.require("m8n8");
  decoder.require("b16");
  require_shared(decoder);
  Op& op = decoder.op();
  const std::string_view count = decoder.take_one_of({"x1", "x2", "x4"});
  MatrixMove move;
  move.count = static_cast<std::uint8_t>(count[1] - '0');
  move.is_transposed = decoder.take("trans");
  decoder.expect_operands(2);
  move.address = decoder.add_address(kIsLoad ? 1 : 0);
  add_vector(decoder, kIsLoad ? 0 : 1, move.count, Type::kB32, kIsLoad);
  op.details.set(move);
  op.code = kIsLoad ? &run_ldmatrix : &run_stmatrix;
}

constexpr std::array kOperations = {
    Operation{"mma", &decode_mma},
    Operation{"ldmatrix", &decode_matrices<true>},
    Operation{"stmatrix", &decode_matrices<false>},
};

}  // namespace

std::span<const Operation> matrix_operations() {
  return kOperations;
}

}  // namespace emu
