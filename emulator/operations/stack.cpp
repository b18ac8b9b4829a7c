// Memory on a thread's stack: alloca, stacksave, stackrestore.
#include <array>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/syntax/limits.hpp"

namespace emu {
namespace {

struct StackMemory {
  std::uint32_t alignment = 8;
};

// Slots: the address of the memory, its size.
Outcome run_alloca(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[1], op, lanes, "the size");
  const auto sizes = warp.read<std::uint64_t>(op.slots[1]);
  Vec<std::uint64_t> addresses{};
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address =
        syntax::align_up(warp.local().top(lane), op.get<StackMemory>().alignment);
    const std::uint64_t size = sizes.lanes[lane];
    if (address > syntax::kMaxLocalBytes || size > syntax::kMaxLocalBytes - address) {
      warp.stop(FindingKind::kOutOfBounds, op, lane_bit(lane),
                fmt::format("the stack overflows: {} bytes are asked for, and {} of {} are taken",
                            size, address, syntax::kMaxLocalBytes));
    }
    warp.set_stack_top(lane, address + size);
    addresses.lanes[lane] = address;
  });
  warp.write(op.slots[0], addresses, lanes, lanes);
  return Outcome::kDone;
}

void decode_alloca(Decoder& decoder) {
  decoder.require("u64");
  decoder.expect_operands(2, 3);
  StackMemory details;
  if (decoder.instruction().operands.size() == 3) {
    const std::int64_t alignment = decoder.immediate(2);
    if (alignment < 1 || static_cast<std::uint64_t>(alignment) > syntax::kMaxAlignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
      decoder.fail(
          fmt::format("the alignment must be a power of two of at most {}", syntax::kMaxAlignment));
    }
    details.alignment = static_cast<std::uint32_t>(alignment);
  }
  decoder.add(decoder.destination(0, 64));
  decoder.add(decoder.source(1, Type::kB64));
  decoder.op().details.set(details);
  decoder.op().code = &run_alloca;
}

// Slots: where the top of the stack is kept.
Outcome run_stacksave(Warp& warp, const Op& op, Lanes lanes) {
  Vec<std::uint64_t> tops{};
  for_each_lane(lanes, [&](int lane) { tops.lanes[lane] = warp.local().top(lane); });
  warp.write(op.slots[0], tops, lanes, lanes);
  return Outcome::kDone;
}

Outcome run_stackrestore(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[0], op, lanes, "the place of the stack");
  const auto tops = warp.read<std::uint64_t>(op.slots[0]);
  for_each_lane(lanes, [&](int lane) {
    if (tops.lanes[lane] > warp.local().top(lane) ||
        tops.lanes[lane] < warp.least_stack_top(lane)) {
      warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
                fmt::format("{:#x} is no place that stacksave has given in this function",
                            tops.lanes[lane]));
    }
    warp.set_stack_top(lane, tops.lanes[lane]);
  });
  return Outcome::kDone;
}

void decode_stacksave(Decoder& decoder) {
  decoder.require("u64");
  decoder.add_operands(64, {});
  decoder.op().code = &run_stacksave;
}

void decode_stackrestore(Decoder& decoder) {
  decoder.require("u64");
  decoder.expect_operands(1);
  decoder.add(decoder.source(0, Type::kB64));
  decoder.op().code = &run_stackrestore;
}

constexpr std::array kOperations = {
    Operation{"alloca", &decode_alloca},
    Operation{"stacksave", &decode_stacksave},
    Operation{"stackrestore", &decode_stackrestore},
};

}  // namespace

std::span<const Operation> stack_operations() {
  return kOperations;
}

}  // namespace emu
