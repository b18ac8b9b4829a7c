// Moves of values: mov.
#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/exact_number.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

// Predicate that is the source.
struct PredicateOperand {
  bool is_negated = false;
};

// Slots: the destination, the source.
Outcome run_move_predicate(Warp& warp, const Op& op, Lanes lanes) {
  const Lanes a = warp.read_predicate(op.slots[1], op.get<PredicateOperand>().is_negated);
  warp.write_predicate(op.slots[0], a, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Whether it is kept which parts of a value are initialised.
template <typename Whole>
constexpr bool kKeepsPartial = sizeof(Whole) <= sizeof(std::uint64_t);

// Writes a part of the lanes' values; of those that are not initialised as a whole, this part may
// be, or bits of it.
template <typename Whole, typename Part>
void write_part(Warp& warp, const Op& op, Lanes lanes, const Vec<Whole>& whole, std::size_t part) {
  const Slot from = op.slots[0];
  const Slot to = op.list[part];
  const std::size_t shift = 8 * sizeof(Part) * part;
  Vec<Part> values;
  for (int i = 0; i < kLanes; ++i) {
    values.lanes[i] = static_cast<Part>(whole.lanes[i] >> shift);
  }
  const Lanes valid = warp.valid(from);
  warp.write(to, values, lanes, valid);
  if constexpr (kKeepsPartial<Whole>) {
    for_each_lane(lanes & ~valid, [&](int lane) {
      const auto bits = static_cast<Part>(
          warp.partial_values.written_bits(from, lane, whole.lanes[lane]) >> shift);
      if (bits == static_cast<Part>(~Part{0})) {
        warp.set_valid(to, warp.valid(to) | lane_bit(lane));
      } else {
        warp.partial_values.keep(to, lane, values.lanes[lane], bits);
      }
    });
  }
}

// Slots: the source. `list`: a destination for each part of it, lowest part first; kNoSlot if the
// part is discarded.
template <typename Whole, typename Part>
Outcome run_unpack(Warp& warp, const Op& op, Lanes lanes) {
  const auto whole = warp.read<Whole>(op.slots[0]);
  for (std::size_t part = 0; part < op.list.size(); ++part) {
    if (op.list[part] != kNoSlot) {
      write_part<Whole, Part>(warp, op, lanes, whole, part);
    }
  }
  return Outcome::kDone;
}

template <typename Whole, typename Part>
Outcome run_pack(Warp& warp, const Op& op, Lanes lanes) {
  Vec<Whole> whole{};
  Lanes valid = kAllLanes;
  for (std::size_t part = 0; part < op.list.size(); ++part) {
    const auto a = warp.read<Part>(op.list[part]);
    valid &= warp.valid(op.list[part]);
    for (int i = 0; i < kLanes; ++i) {
      whole.lanes[i] |=
          static_cast<Whole>(static_cast<Whole>(a.lanes[i]) << (8 * sizeof(Part) * part));
    }
  }
  warp.write(op.slots[0], whole, lanes, valid);
  if constexpr (kKeepsPartial<Whole>) {
    for_each_lane(lanes & ~valid, [&](int lane) {
      std::uint64_t bits = 0;
      for (std::size_t part = 0; part < op.list.size(); ++part) {
        const auto value = warp.read_lane<Part>(op.list[part], lane);
        const auto written = static_cast<Part>(warp.written_bits(op.list[part], lane, value));
        bits |= std::uint64_t{written} << 8 * sizeof(Part) * part;
      }
      warp.partial_values.keep(op.slots[0], lane, whole.lanes[lane], bits);
    });
  }
  return Outcome::kDone;
}

// Code for the sizes of a whole and of its parts.
struct VectorMove {
  int whole_bits;
  int part_bits;
  Code pack;
  Code unpack;
};
template <typename Whole, typename Part>
constexpr VectorMove kVectorMove = {8 * sizeof(Whole), 8 * sizeof(Part), &run_pack<Whole, Part>,
                                    &run_unpack<Whole, Part>};
constexpr std::array kVectorMoves = {
    kVectorMove<std::uint16_t, std::uint8_t>,  kVectorMove<std::uint32_t, std::uint8_t>,
    kVectorMove<std::uint32_t, std::uint16_t>, kVectorMove<std::uint64_t, std::uint16_t>,
    kVectorMove<std::uint64_t, std::uint32_t>, kVectorMove<UInt128, std::uint32_t>,
    kVectorMove<UInt128, std::uint64_t>,
};

// Decodes a mov with {a, b, ...} as its source or its destination.
void decode_vector_move(Decoder& decoder, Type type) {
  const bool is_unpack = decoder.operand(0).kind == syntax::OperandKind::kVector;
  const syntax::Operand& whole = decoder.operand(is_unpack ? 1 : 0);
  const syntax::Operand& parts = decoder.operand(is_unpack ? 0 : 1);
  const auto count = static_cast<int>(parts.parts.size());
  const auto* const move = std::ranges::find_if(kVectorMoves, [&](const VectorMove& row) {
    return row.whole_bits == bits_of(type) && row.part_bits * count == row.whole_bits;
  });
  if (move == kVectorMoves.end()) {
    decoder.fail("unsupported size of vector elements");
  }
  decoder.add(is_unpack ? decoder.source(whole, type) : decoder.destination(whole, bits_of(type)));
  for (const syntax::Operand& part : parts.parts) {
    if (is_unpack && part.kind == syntax::OperandKind::kSink) {
      decoder.op().list.push_back(kNoSlot);
    } else {
      decoder.op().list.push_back(is_unpack ? decoder.destination(part, move->part_bits)
                                            : decoder.source(part, bit_type(move->part_bits)));
    }
  }
  decoder.op().code = is_unpack ? move->unpack : move->pack;
}

// A register that reads a part of a clock.
struct Clock {
  std::string_view name;
  int bits;
  unsigned shift;  // lowest bit that is read
};
constexpr std::array kClocks = {
    Clock{"%clock", 32, 0},       Clock{"%clock_hi", 32, 32},      Clock{"%clock64", 64, 0},
    Clock{"%globaltimer", 64, 0}, Clock{"%globaltimer_lo", 32, 0}, Clock{"%globaltimer_hi", 32, 32},
};

struct ClockPart {
  unsigned shift = 0;
};

// Reads the clock that the warps of the grid share, and that advances at each read.
template <typename T>
Outcome run_clock(Warp& warp, const Op& op, Lanes lanes) {
  Grid& grid = warp.block().grid();
  grid.clock += 1 + grid.random() % 64;
  warp.fill(op.slots[0], static_cast<T>(grid.clock >> op.get<ClockPart>().shift), lanes);
  return Outcome::kDone;
}

// Returns the clock that an operand reads; null for other operands.
const Clock* find_clock(const syntax::Operand& operand) {
  const auto* const row = std::ranges::find(kClocks, operand.name, &Clock::name);
  return operand.kind == syntax::OperandKind::kSpecial && row != kClocks.end() ? row : nullptr;
}

void decode_mov(Decoder& decoder) {
  const Type type = decoder.take_type();
  decoder.expect_operands(2);
  if (const Clock* const clock = find_clock(decoder.operand(1)); clock != nullptr) {
    if (bits_of(type) != clock->bits || is_float(type)) {
      decoder.fail(
          fmt::format("{} must be read into a register of {} bits", clock->name, clock->bits));
    }
    decoder.add(decoder.destination(0, clock->bits));
    decoder.op().details.set(ClockPart{.shift = clock->shift});
    decoder.op().code = clock->bits == 32 ? &run_clock<std::uint32_t> : &run_clock<std::uint64_t>;
    return;
  }
  if (type == Type::kPred) {
    decoder.add(decoder.destination(0, 1));
    decoder.op().details.set(PredicateOperand{.is_negated = decoder.add_predicate(1)});
    decoder.op().code = &run_move_predicate;
    return;
  }
  if (decoder.operand(0).kind == syntax::OperandKind::kVector ||
      decoder.operand(1).kind == syntax::OperandKind::kVector) {
    decode_vector_move(decoder, type);
    return;
  }
  add_same_type(decoder, type, 1);
  if (type == Type::kB128) {
    decoder.op().code = &run_lane_wise<std::identity, UInt128, UInt128>;
    return;
  }
  decoder.op().code = pick_integer(decoder, bit_type(bits_of(type)), []<typename T>() -> Code {
    return &run_lane_wise<std::identity, T, T>;
  });
}

constexpr std::array kOperations = {
    Operation{"mov", &decode_mov},
};

}  // namespace

std::span<const Operation> data_operations() {
  return kOperations;
}

}  // namespace emu
