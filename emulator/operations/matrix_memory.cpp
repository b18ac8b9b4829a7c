// Loads and stores of whole matrices as fragments: wmma.load and wmma.store.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/matrix_forms.hpp"
#include "emulator/operations/matrix_operations.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

constexpr std::size_t kMaxRuns = 32;

// Details. Slots: the address, the stride. `list`: the registers.
struct FragmentMove {
  AddressOperand address{};
  const Fragment* fragment = nullptr;
  MemorySpace space = MemorySpace::kGeneric;
  std::uint8_t element_bits = 0;
  std::uint8_t register_bits = 32;
  std::uint8_t units = 1;      // of a register: two for sums in binary16
  bool is_along_line = false;  // the elements of a line are contiguous; otherwise those of a k
  bool has_stride = false;

  // Elements of a register, and of a unit.
  [[nodiscard]] std::size_t elements() const { return register_bits / element_bits; }
  [[nodiscard]] std::size_t elements_of_unit() const { return elements() / units; }
  // Registers that do not repeat others.
  [[nodiscard]] std::size_t registers() const { return fragment->shape.units() / units; }
  // Elements that are contiguous in memory, and the number of such runs.
  [[nodiscard]] std::size_t run_elements() const {
    return is_along_line ? fragment->shape.width * elements_of_unit() : fragment->shape.lines;
  }
  [[nodiscard]] std::size_t runs() const {
    return is_along_line ? fragment->shape.lines : fragment->shape.width * elements_of_unit();
  }
  // Bytes that are accessed at once.
  [[nodiscard]] std::size_t piece_bytes() const {
    return (is_along_line ? register_bits : element_bits) / 8U;
  }
};

// Resolves the runs of the matrix, and checks them for races.
std::array<Memory, kMaxRuns> resolve_runs(Warp& warp, const Op& op, Lanes lanes, bool is_load) {
  const FragmentMove& move = op.get<FragmentMove>();
  const std::uint64_t base =
      static_cast<std::uint64_t>(move.address.offset) +
      (move.address.bits == 32
           ? uniform_value<std::uint32_t>(warp, op, op.slots[0], lanes,
                                          FindingKind::kIllegalOperand, "the address")
           : uniform_value<std::uint64_t>(warp, op, op.slots[0], lanes,
                                          FindingKind::kIllegalOperand, "the address"));
  std::uint64_t stride = move.run_elements();
  if (move.has_stride) {
    stride =
        uniform_value(warp, op, op.slots[1], lanes, FindingKind::kIllegalOperand, "the stride");
    if (!is_load && stride < move.run_elements()) {
      warp.stop(FindingKind::kIllegalOperand, op, lanes,
                fmt::format("the stride is {}, but {} elements are contiguous", stride,
                            move.run_elements()));
    }
  }
  const std::size_t bytes = move.run_elements() * move.element_bits / 8;
  std::array<Memory, kMaxRuns> runs;
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op);
  for (std::size_t run = 0; run < move.runs(); ++run) {
    const std::uint64_t address = base + run * stride * move.element_bits / 8;
    resolve(warp, op, 0, move.space, address, move.piece_bytes());  // checks the alignment
    runs.at(run) = resolve_unaligned(warp, op, 0, move.space, address, bytes);
    if (!is_load) {
      require_writable(warp, op, lanes, runs.at(run), address);
    }
    accesses.add(runs.at(run), bytes);
    lane_accesses.check(races::LaneShadow::kWholeWarp, runs.at(run), bytes, !is_load);
  }
  if (is_load) {
    accesses.check_read();
    return runs;
  }
  accesses.check_write();
  for (std::size_t run = 0; run < move.runs(); ++run) {
    lane_accesses.record(races::LaneShadow::kWholeWarp, runs.at(run), bytes, true);
  }
  return runs;
}

// Calls use(lane, memory, offset, first_bit) for each piece of a register.
template <typename Use>
void for_each_piece(const FragmentMove& move, std::span<const Memory> runs, std::size_t number,
                    Use&& use) {
  const std::size_t pieces = move.register_bits / 8U / move.piece_bytes();
  const std::size_t pieces_of_unit = std::max<std::size_t>(pieces / move.units, 1);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const FragmentPlace* const places =
        &move.fragment->places[(number * move.units + piece / pieces_of_unit) * kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t line = places[lane].line;
      const std::size_t element =
          places[lane].unit * move.elements_of_unit() + piece % pieces_of_unit;
      const std::size_t run = move.is_along_line ? line : element;
      const std::size_t position = move.is_along_line ? element : line;
      use(lane, runs[run], position * move.element_bits / 8, piece * move.piece_bytes() * 8);
    }
  }
}

Outcome run_load(Warp& warp, const Op& op, Lanes lanes) {
  const FragmentMove& move = op.get<FragmentMove>();
  warp.require_all_lanes(op, lanes);
  const std::array<Memory, kMaxRuns> runs = resolve_runs(warp, op, lanes, true);
  const std::size_t bytes = move.piece_bytes();
  for (std::size_t i = 0; i < move.registers(); ++i) {
    Vec<std::uint64_t> values{};
    Lanes valid = kAllLanes;
    for_each_piece(
        move, runs, i,
        [&](std::size_t lane, const Memory& memory, std::size_t offset, std::size_t shift) {
          std::uint64_t value = 0;
          std::memcpy(&value, memory.bytes + offset, bytes);
          values.lanes[lane] |= value << shift;
          if (!memory.is_written(offset, bytes)) {
            valid &= ~(Lanes{1} << lane);
          }
        });
    for (std::size_t copy = i; copy < op.list.size(); copy += move.registers()) {
      write_bits(warp, op.list[copy], move.register_bits, values, lanes, valid);
    }
  }
  return Outcome::kDone;
}

Outcome run_store(Warp& warp, const Op& op, Lanes lanes) {
  const FragmentMove& move = op.get<FragmentMove>();
  warp.require_all_lanes(op, lanes);
  const std::array<Memory, kMaxRuns> runs = resolve_runs(warp, op, lanes, false);
  const std::size_t bytes = move.piece_bytes();
  for (std::size_t i = 0; i < move.registers(); ++i) {
    const Vec<std::uint64_t> values = read_bits(warp, op.list[i], move.register_bits);
    const Lanes valid = warp.valid(op.list[i]);
    for_each_piece(
        move, runs, i,
        [&](std::size_t lane, const Memory& memory, std::size_t offset, std::size_t shift) {
          const bool is_valid = (valid >> lane & 1U) != 0;
          if (!is_valid && memory.allocation != nullptr) [[unlikely]] {
            const auto first =
                static_cast<std::uint64_t>(memory.bytes - memory.allocation->bytes.data());
            report_uninitialized_store(warp, op, Lanes{1} << lane,
                                       memory.allocation->address + first + offset);
          }
          const std::uint64_t value = values.lanes[lane] >> shift;
          std::memcpy(memory.bytes + offset, &value, bytes);
          memory.set_written(offset, bytes, is_valid);
        });
  }
  return Outcome::kDone;
}

// Fills in the fragment of A or B, and returns the number of its registers.
std::size_t take_operand(Decoder& decoder, Type type, bool is_a, bool is_row, FragmentMove& move) {
  const ElementType& element = element_type(decoder, type);
  const MatrixForm& form = take_form(decoder, element.element_class, true);
  const bool is_double = element.element_class == ElementClass::kDouble;
  move.fragment = &fragment_of(is_a ? form.a() : form.b());
  move.element_bits = static_cast<std::uint8_t>(is_double ? 64 : container_bits(element.element));
  move.register_bits = is_double ? 64 : 32;
  move.is_along_line = is_a == is_row;
  if (move.element_bits < 8 && !move.is_along_line) {
    decoder.fail("elements of less than 8 bits have A in .row and B in .col only");
  }
  return form.operand_registers(*move.fragment);
}

// The same for C or D.
std::size_t take_sums(Decoder& decoder, Type type, bool is_row, FragmentMove& move) {
  const MatrixForm& form = take_form_of_sums(decoder, type);
  const SumType sum = sum_type(decoder, type, form.elements);
  move.fragment = &fragment_of(form.sums());
  move.register_bits = sum.bits;
  move.units = sum.parts;
  move.element_bits = static_cast<std::uint8_t>(sum.bits / sum.parts);
  move.is_along_line = is_row != form.is_transposed();
  return move.registers();
}

}  // namespace

void decode_wmma_move(Decoder& decoder, bool is_load) {
  Op& op = decoder.op();
  FragmentMove move;
  const std::string_view matrix =
      is_load ? decoder.take_one_of({"a", "b", "c"}) : decoder.take_one_of({"d"});
  decoder.require("sync");
  decoder.require("aligned");
  const bool is_row = decoder.take_one_of({"row", "col"}) == "row";
  move.space = take_shared_space(decoder);
  if (move.space == MemorySpace::kGeneric && decoder.take("global")) {
    move.space = MemorySpace::kGlobal;
  }
  const Type type = decoder.take_type();
  const std::size_t registers = matrix == "a" || matrix == "b"
                                    ? take_operand(decoder, type, matrix == "a", is_row, move)
                                    : take_sums(decoder, type, is_row, move);
  decoder.expect_operands(2, 3);
  move.has_stride = decoder.instruction().operands.size() == 3;
  move.address = decoder.add_address(is_load ? 1 : 0);
  if (move.has_stride) {
    decoder.add(decoder.source(2, Type::kU32));
  }
  const Type register_type = move.register_bits == 64 ? Type::kF64
                             : type == Type::kF32     ? Type::kF32
                                                      : Type::kB32;
  for (const syntax::Operand& part : decoder.parts(is_load ? 0 : 1, registers)) {
    op.list.push_back(is_load ? decoder.destination(part, move.register_bits)
                              : decoder.source(part, register_type));
  }
  op.details.set(move);
  op.code = is_load ? &run_load : &run_store;
}

}  // namespace emu
