// Block scales of mma.sync for sm_120: which lanes and bytes hold the scales of lines.
#include "emulator/operations/block_scales.hpp"

#include <fmt/format.h>

#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

constexpr std::size_t kGroups = 8;        // of four lanes, each with two rows of A or a column of B
constexpr std::size_t kFirstOperand = 4;  // behind D, A, B and C
// Slots of a matrix: the scales, and what chooses the byte and the thread.
constexpr std::size_t kSlots = 3;

std::size_t read_choice(Warp& warp, const Op& op, Lanes lanes, std::size_t slot, std::size_t end,
                        std::string_view what) {
  const auto value = uniform_value<std::uint16_t>(warp, op, op.slots.at(slot), lanes,
                                                  FindingKind::kIllegalOperand, what);
  if (value >= end) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("{} is {}, but must be less than {}", what, value, end));
  }
  return value;
}

// Reads the scales of `rows` lines of each group, which lanes `rows` * thread and the next hold.
std::vector<std::uint8_t> read_scales(Warp& warp, const Op& op, Lanes lanes, std::size_t first_slot,
                                      std::size_t rows) {
  const std::size_t byte =
      read_choice(warp, op, lanes, first_slot + 1, 4, "the byte of the scales");
  const std::size_t thread =
      read_choice(warp, op, lanes, first_slot + 2, 4 / rows, "the thread of the scales");
  const auto words = warp.read<std::uint32_t>(op.slots.at(first_slot));
  std::vector<std::uint8_t> scales(kGroups * rows);
  for (std::size_t line = 0; line < scales.size(); ++line) {
    const std::size_t lane = line % kGroups * 4 + rows * thread + line / kGroups;
    warp.require_valid(op.slots.at(first_slot), op, Lanes{1} << lane, "a scale");
    scales[line] = static_cast<std::uint8_t>(words.lanes[lane] >> (8 * byte));
  }
  return scales;
}

}  // namespace

void add_block_scales(Decoder& decoder) {
  for (std::size_t matrix = 0; matrix < 2; ++matrix) {
    const std::size_t operand = kFirstOperand + 2 * matrix;
    decoder.add(decoder.source(decoder.parts(operand, 1)[0], Type::kB32));
    for (const syntax::Operand& choice : decoder.parts(operand + 1, 2)) {
      decoder.add(decoder.source(choice, Type::kU16));
    }
  }
}

std::vector<std::uint8_t> read_scales_of_a(Warp& warp, const Op& op, Lanes lanes) {
  return read_scales(warp, op, lanes, 0, 2);
}

std::vector<std::uint8_t> read_scales_of_b(Warp& warp, const Op& op, Lanes lanes) {
  return read_scales(warp, op, lanes, kSlots, 1);
}

}  // namespace emu
