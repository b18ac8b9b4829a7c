// Loads and stores of fragments by rows (ldmatrix, stmatrix), and their transposition in registers
// (movmatrix).
#include <array>
#include <cstring>
#include <string_view>

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

Memory matrix_row(Warp& warp, const Op& op, const MatrixMove& move, std::size_t row) {
  const int lane = static_cast<int>(row);
  return resolve(warp, op, lane, move.space, address_of(warp, move.address, lane), kRowBytes);
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
  warp.require_all_lanes(op, lanes);
  warp.require_valid(op.slots[0], op, move.addressing_lanes(), "the address");
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op);
  std::array<Row, kLanes> rows;
  const std::size_t row_count = std::size_t{move.count} * move.rows;
  for (std::size_t row = 0; row < row_count; ++row) {
    const Memory memory = matrix_row(warp, op, move, row);
    accesses.add(memory, kRowBytes);
    lane_accesses.check(static_cast<int>(row), memory, kRowBytes, false);
    rows[row] = read_row(memory, move.packed_bits);
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

template <MatrixLayout kLayout>
Outcome run_stmatrix(Warp& warp, const Op& op, Lanes lanes) {
  const MatrixMove& move = op.get<MatrixMove>();
  warp.require_all_lanes(op, lanes);
  warp.require_valid(op.slots[0], op, move.addressing_lanes(), "the address");
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op);
  constexpr std::size_t kSize = piece_bytes(kLayout);
  for (std::size_t matrix = 0; matrix < move.count; ++matrix) {
    const auto a = warp.read<std::uint32_t>(op.list[matrix]);
    const Lanes valid = warp.valid(op.list[matrix]);
    std::array<Memory, 8> rows;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      rows.at(row) = matrix_row(warp, op, move, matrix * 8 + row);
      accesses.add(rows.at(row), kRowBytes);
      lane_accesses.record(races::LaneShadow::kWholeWarp, rows.at(row), kRowBytes, true);
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t piece = 0; piece < 4 / kSize; ++piece) {
        const auto [row, byte] = place_of<kLayout>(lane, 0, piece);
        const std::uint32_t value = a.lanes[lane] >> (8 * kSize * piece);
        std::memcpy(rows.at(row).bytes + byte, &value, kSize);
        rows.at(row).set_written(byte, kSize, (valid >> lane & 1U) != 0);
      }
    }
  }
  accesses.check_write();
  if (accesses.overlap()) {
    report_differing_lanes(warp, op, lanes);
  }
  return Outcome::kDone;
}

// Takes the number of matrices, and the space, shared memory or generic addresses.
MatrixMove take_move(Decoder& decoder) {
  MatrixMove move;
  decoder.require("sync");
  decoder.require("aligned");
  if (!decoder.take("shared::cta") && !decoder.take("shared")) {
    move.space = MemorySpace::kGeneric;
  }
  move.count = static_cast<std::uint8_t>(decoder.take_one_of({"x1", "x2", "x4"})[1] - '0');
  return move;
}

void add_registers(Decoder& decoder, const MatrixMove& move, bool is_load) {
  Op& op = decoder.op();
  for (const syntax::Operand& part :
       decoder.parts(is_load ? 0 : 1, move.count * move.registers())) {
    op.list.push_back(is_load ? decoder.destination(part, 32) : decoder.source(part, Type::kB32));
  }
  op.details.set(move);
}

}  // namespace

void decode_ldmatrix(Decoder& decoder) {
  MatrixMove move = take_move(decoder);
  MatrixLayout layout = MatrixLayout::kRows;
  const std::string_view shape = decoder.take_one_of({"m8n8", "m8n16", "m16n16"});
  if (shape == "m8n8") {
    layout = decoder.take("trans") ? MatrixLayout::kTransposedHalves : MatrixLayout::kRows;
    decoder.require("b16");
  } else {
    if (shape == "m16n16") {
      decoder.require("trans");
      layout = MatrixLayout::kTransposedBytes;
      move.rows = 16;
    }
    if (shape == "m8n16" || !decoder.take("b8")) {
      decoder.require("b8x16");
      move.packed_bits = decoder.take_one_of({"b6x16_p32", "b4x16_p64"}) == "b6x16_p32" ? 6 : 4;
    }
    if (move.rows * move.count > kLanes) {
      decoder.fail("m16n16 has .x1 and .x2 only");
    }
  }
  decoder.expect_operands(2);
  move.address = decoder.add_address(1);
  add_registers(decoder, move, true);
  decoder.op().code = layout == MatrixLayout::kRows ? &run_ldmatrix<MatrixLayout::kRows>
                      : layout == MatrixLayout::kTransposedHalves
                          ? &run_ldmatrix<MatrixLayout::kTransposedHalves>
                          : &run_ldmatrix<MatrixLayout::kTransposedBytes>;
}

void decode_stmatrix(Decoder& decoder) {
  MatrixMove move = take_move(decoder);
  Code code = &run_stmatrix<MatrixLayout::kRows>;
  if (decoder.take("m16n8")) {
    decoder.require("trans");
    decoder.require("b8");
    code = &run_stmatrix<MatrixLayout::kTransposedSums>;
  } else {
    decoder.require("m8n8");
    decoder.require("b16");
    if (decoder.take("trans")) {
      code = &run_stmatrix<MatrixLayout::kTransposedHalves>;
    }
  }
  decoder.expect_operands(2);
  move.address = decoder.add_address(0);
  add_registers(decoder, move, false);
  decoder.op().code = code;
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
