// Loads and stores of fragments by rows (ldmatrix, stmatrix), and their transposition in registers
// (movmatrix).
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/matrix_operations.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/tensor_product.hpp"

namespace emu {
namespace {

using Words = Vec<std::uint32_t>;

// Rows have 16 bytes, or 16 packed elements and padding; a lane gives the address of a row.
constexpr std::size_t kRowBytes = kChunkBytes;

enum class MatrixLayout : std::uint8_t {
  kRows,              // a register holds four bytes of a row
  kTransposedHalves,  // two elements of 16 bits of a column
  kTransposedBytes,   // four elements of 8 bits of a column, as mma.sync has B
  kTransposedSums,    // two elements of 8 bits of two columns each, as mma.sync has sums
};
// Size of what a register holds of a row.
constexpr std::size_t piece_bytes(MatrixLayout layout) {
  return layout == MatrixLayout::kRows ? 4 : layout == MatrixLayout::kTransposedHalves ? 2 : 1;
}

// Slots: the address. `list`: the registers of each matrix.
struct MatrixMove {
  AddressOperand address{};
  MemorySpace space = MemorySpace::kShared;
  std::uint8_t count = 1;  // number of matrices
  std::uint8_t rows = 8;   // of each in memory
  std::uint8_t packed_bits = 8;

  [[nodiscard]] std::size_t registers() const { return rows / 8U; }  // of a matrix
  [[nodiscard]] std::size_t row_count() const { return std::size_t{count} * rows; }
  [[nodiscard]] Lanes addressing_lanes() const {
    const unsigned lanes = unsigned{count} * rows;
    return lanes == kLanes ? kAllLanes : (Lanes{1} << lanes) - 1;
  }
};

struct Place {
  std::size_t row;
  std::size_t byte;
};

// Place of a piece of a register.
template <MatrixLayout kLayout>
Place place_of(std::size_t lane, [[maybe_unused]] std::size_t number, std::size_t piece) {
  const std::size_t group = lane / 4;
  const std::size_t member = lane % 4;
  if constexpr (kLayout == MatrixLayout::kRows) {
    return {group, member * 4};
  } else if constexpr (kLayout == MatrixLayout::kTransposedHalves) {
    return {member * 2 + piece, group * 2};
  } else if constexpr (kLayout == MatrixLayout::kTransposedBytes) {
    return {member * 4 + piece, group + number * 8};
  } else {
    return {member * 2 + piece % 2, group + piece / 2 * 8};
  }
}

// A generic address must be one of the block's shared memory (PTX ISA, ldmatrix and stmatrix).
Memory matrix_row(Warp& warp, const Op& op, const MatrixMove& move, std::size_t row) {
  const int lane = static_cast<int>(row);
  const std::uint64_t address = address_of(warp, move.address, lane);
  const Memory memory = resolve(warp, op, lane, move.space, address, kRowBytes);
  if (memory.block != &warp.block()) {
    warp.stop(FindingKind::kOutOfBounds, op, lane_bit(lane),
              fmt::format("the address {:#x} is not in the block's shared memory", address));
  }
  return memory;
}

// Begins a move of all lanes: checks the addresses of the rows, adds them to the accesses, and
// returns them.
std::array<Memory, kLanes> begin_move(Warp& warp, const Op& op, Lanes lanes, Accesses& accesses) {
  const MatrixMove& move = op.get<MatrixMove>();
  warp.require_all_lanes(op, lanes);
  warp.require_valid(op.slots[0], op, move.addressing_lanes(), "the address");
  std::array<Memory, kLanes> rows;
  for (std::size_t row = 0; row < move.row_count(); ++row) {
    rows.at(row) = matrix_row(warp, op, move, row);
    accesses.add(rows.at(row), kRowBytes);
  }
  return rows;
}

// A row's bytes, and which of them were written.
struct Row {
  std::array<std::byte, kRowBytes> bytes{};
  std::array<std::uint8_t, kRowBytes> is_written{};
};

Row read_row(const Memory& memory, std::size_t packed_bits) {
  Row row;
  std::memcpy(row.bytes.data(), memory.bytes, kRowBytes);
  row.is_written.fill(1);
  if (memory.written != nullptr) {
    std::memcpy(row.is_written.data(), memory.written, kRowBytes);
  }
  if (packed_bits < 8) {
    row.bytes = unpack_row(row.bytes, packed_bits);
    std::array<std::uint8_t, kRowBytes> is_written{};
    for (std::size_t i = 0; i < kRowBytes; ++i) {
      is_written.at(i) = row.is_written.at(i * packed_bits / 8) &
                         row.is_written.at((i * packed_bits + packed_bits - 1) / 8);
    }
    row.is_written = is_written;
  }
  return row;
}

template <MatrixLayout kLayout>
Outcome run_ldmatrix(Warp& warp, const Op& op, Lanes lanes) {
  const MatrixMove& move = op.get<MatrixMove>();
  Accesses accesses(warp, op, lanes);
  const std::array<Memory, kLanes> places = begin_move(warp, op, lanes, accesses);
  const LaneAccesses lane_accesses(warp, op);
  std::array<Row, kLanes> rows;
  for (std::size_t row = 0; row < move.row_count(); ++row) {
    lane_accesses.check(static_cast<int>(row), places[row], kRowBytes, false);
    lane_accesses.record(races::LaneShadow::kWholeWarp, places[row], kRowBytes, false);
    rows[row] = read_row(places[row], move.packed_bits);
  }
  accesses.check_read();
  constexpr std::size_t kSize = piece_bytes(kLayout);
  constexpr std::uint32_t kWritten = 0x01010101;
  for (std::size_t i = 0; i < op.list.size(); ++i) {
    const Row* const matrix = &rows[i / move.registers() * move.rows];
    Words d;
    Lanes valid = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::uint32_t is_written = 0;
      for (std::size_t piece = 0; piece < 4 / kSize; ++piece) {
        const auto [row, byte] = place_of<kLayout>(lane, i % move.registers(), piece);
        const std::size_t shift = piece * kSize;
        std::memcpy(reinterpret_cast<std::byte*>(&d.lanes[lane]) + shift, &matrix[row].bytes[byte],
                    kSize);
        std::memcpy(reinterpret_cast<std::byte*>(&is_written) + shift,
                    &matrix[row].is_written[byte], kSize);
      }
      valid |= Lanes{is_written == kWritten} << lane;
    }
    warp.write(op.list[i], d, lanes, valid);
  }
  return Outcome::kDone;
}

// Calls use(lane, memory, bytes) for what the lanes write of a matrix: whole words that are one
// lane's, or else whole rows of all lanes, several of which write to each word.
template <MatrixLayout kLayout, typename Use>
void for_each_written(std::span<const Memory> rows, Use&& use) {
  if constexpr (kLayout == MatrixLayout::kRows) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto [row, byte] = place_of<kLayout>(lane, 0, 0);
      Memory word = rows[row];
      word.bytes += byte;
      use(static_cast<int>(lane), word, piece_bytes(kLayout));
    }
  } else {
    for (const Memory& row : rows) {
      use(races::LaneShadow::kWholeWarp, row, kRowBytes);
    }
  }
}

// Calls use(row, byte, value, lane, is_valid) for each piece of the registers: where it is stored,
// what, by which lane, and whether that register was written.
template <MatrixLayout kLayout, typename Use>
void for_each_piece(const Warp& warp, const Op& op, std::span<const Memory> all_rows, Use&& use) {
  const MatrixMove& move = op.get<MatrixMove>();
  constexpr std::size_t kSize = piece_bytes(kLayout);
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    const auto a = warp.read<std::uint32_t>(op.list[matrix]);
    const Lanes valid = warp.valid(op.list[matrix]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t piece = 0; piece < 4 / kSize; ++piece) {
        const auto [row, byte] = place_of<kLayout>(lane, 0, piece);
        use(all_rows[matrix * move.rows + row], byte, a.lanes[lane] >> (8 * kSize * piece),
            Lanes{1} << lane, (valid >> lane & 1U) != 0);
      }
    }
  }
}

template <MatrixLayout kLayout>
Outcome run_stmatrix(Warp& warp, const Op& op, Lanes lanes) {
  const MatrixMove& move = op.get<MatrixMove>();
  Accesses accesses(warp, op, lanes);
  const std::array<Memory, kLanes> all_rows = begin_move(warp, op, lanes, accesses);
  const LaneAccesses lane_accesses(warp, op);
  const auto rows_of = [&](std::size_t matrix) {
    return std::span(all_rows).subspan(matrix * move.rows, move.rows);
  };
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    for_each_written<kLayout>(rows_of(matrix),
                              [&](int lane, const Memory& memory, std::size_t bytes) {
                                lane_accesses.check(lane, memory, bytes, true);
                              });
  }
  constexpr std::size_t kSize = piece_bytes(kLayout);
  for_each_piece<kLayout>(
      warp, op, all_rows,
      [&](const Memory& row, std::size_t byte, std::uint32_t value, Lanes /*lane*/, bool is_valid) {
        std::memcpy(row.bytes + byte, &value, kSize);
        row.set_written(byte, kSize, is_valid);
      });
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    for_each_written<kLayout>(rows_of(matrix),
                              [&](int lane, const Memory& memory, std::size_t bytes) {
                                lane_accesses.record(lane, memory, bytes, true);
                              });
  }
  accesses.check_write();
  if (accesses.overlap()) {  // rows at the same place must have the same values
    Lanes overwritten = 0;
    for_each_piece<kLayout>(warp, op, all_rows,
                            [&](const Memory& row, std::size_t byte, std::uint32_t value,
                                Lanes lane, bool /*is_valid*/) {
                              overwritten |=
                                  std::memcmp(row.bytes + byte, &value, kSize) != 0 ? lane : 0;
                            });
    if (overwritten != 0) {
      report_differing_lanes(warp, op, overwritten);
    }
  }
  return Outcome::kDone;
}

template <bool kIsLoad>
Code code_of(MatrixLayout layout) {
  constexpr auto kCode = []<MatrixLayout kLayout>() -> Code {
    return kIsLoad ? &run_ldmatrix<kLayout> : &run_stmatrix<kLayout>;
  };
  return layout == MatrixLayout::kRows ? kCode.template operator()<MatrixLayout::kRows>()
         : layout == MatrixLayout::kTransposedHalves
             ? kCode.template operator()<MatrixLayout::kTransposedHalves>()
         : layout == MatrixLayout::kTransposedBytes
             ? kCode.template operator()<MatrixLayout::kTransposedBytes>()
             : kCode.template operator()<MatrixLayout::kTransposedSums>();
}

// Takes the shape and the type of the elements.
MatrixLayout take_layout(Decoder& decoder, bool is_load, MatrixMove& move) {
  const std::string_view shape = is_load ? decoder.take_one_of({"m8n8", "m8n16", "m16n16"})
                                         : decoder.take_one_of({"m8n8", "m16n8"});
  if (shape == "m8n8") {
    const bool is_transposed = decoder.take("trans");
    decoder.require("b16");
    return is_transposed ? MatrixLayout::kTransposedHalves : MatrixLayout::kRows;
  }
  const bool is_transposed = shape != "m8n16";
  if (is_transposed) {
    decoder.require("trans");
  }
  move.rows = shape == "m16n16" ? 16 : 8;
  if (move.rows * move.count > kLanes) {
    decoder.fail("m16n16 has .x1 and .x2 only");
  }
  if (shape == "m16n8") {
    decoder.require("b8");
    return MatrixLayout::kTransposedSums;
  }
  if (shape == "m8n16" || !decoder.take("b8")) {
    decoder.require("b8x16");
    move.packed_bits = decoder.take_one_of({"b6x16_p32", "b4x16_p64"}) == "b6x16_p32" ? 6 : 4;
  }
  return is_transposed ? MatrixLayout::kTransposedBytes : MatrixLayout::kRows;
}

template <bool kIsLoad>
void decode_move(Decoder& decoder) {
  MatrixMove move;
  decoder.require("sync");
  decoder.require("aligned");
  if (!decoder.take("shared::cta") && !decoder.take("shared")) {
    move.space = MemorySpace::kGeneric;
  }
  move.count = static_cast<std::uint8_t>(decoder.take_one_of({"x1", "x2", "x4"})[1] - '0');
  const MatrixLayout layout = take_layout(decoder, kIsLoad, move);
  decoder.expect_operands(2);
  move.address = decoder.add_address(kIsLoad ? 1 : 0);
  Op& op = decoder.op();
  for (const syntax::Operand& part :
       decoder.parts(kIsLoad ? 0 : 1, move.count * move.registers())) {
    op.list.push_back(kIsLoad ? decoder.destination(part, 32) : decoder.source(part, Type::kB32));
  }
  op.details.set(move);
  op.code = code_of<kIsLoad>(layout);
}

}  // namespace

void decode_ldmatrix(Decoder& decoder) {
  decode_move<true>(decoder);
}

void decode_stmatrix(Decoder& decoder) {
  decode_move<false>(decoder);
}

namespace {

// Transposes a matrix of 8 x 8 elements of 16 bits. Slots: the destination, the source.
Outcome run_movmatrix(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_all_lanes(op, lanes);
  const auto a = warp.read<std::uint32_t>(op.slots[1]);
  const Lanes is_valid = warp.valid(op.slots[1]);
  Words d{};
  Lanes valid = kAllLanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t part = 0; part < 2; ++part) {
      const std::size_t row = lane % 4 * 2 + part;
      const std::size_t column = lane / 4;
      const std::size_t from = row * 4 + column / 2;
      d.lanes[lane] |= (a.lanes[from] >> (16 * (column % 2)) & 0xFFFFU) << (16 * part);
      if ((is_valid >> from & 1U) == 0) {
        valid &= ~(Lanes{1} << lane);
      }
    }
  }
  warp.write(op.slots[0], d, lanes, valid);
  return Outcome::kDone;
}

}  // namespace

void decode_movmatrix(Decoder& decoder) {
  for (const std::string_view modifier : {"sync", "aligned", "m8n8", "trans", "b16"}) {
    decoder.require(modifier);
  }
  decoder.add_operands(32, {Type::kB32});
  decoder.op().code = &run_movmatrix;
}

}  // namespace emu
