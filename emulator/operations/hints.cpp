// Hints to caches and the scheduler, which change nothing here, and discard, which ends values.
#include <array>
#include <cstdint>

#include "emulator/operations/accesses.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

constexpr std::int64_t kLineBytes = 128;

// The address of a prefetch is not checked.
void decode_prefetch(Decoder& decoder) {
  decoder.take_any_of({"global", "local", "const", "param"});
  if (!decoder.take("tensormap")) {
    decoder.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  }
  decoder.expect_operands(1);
  decoder.op().code = &run_nothing;
}

void decode_prefetchu(Decoder& decoder) {
  decoder.require("L1");
  decoder.expect_operands(1);
  decoder.op().code = &run_nothing;
}

void require_line(Decoder& decoder) {
  decoder.expect_operands(2);
  if (decoder.immediate(1) != kLineBytes) {
    decoder.fail("the size must be 128");
  }
}

void decode_applypriority(Decoder& decoder) {
  decoder.take("global");
  decoder.require("L2::evict_normal");
  require_line(decoder);
  decoder.op().code = &run_nothing;
}

struct Discard {
  AddressOperand address{};
  MemorySpace space = MemorySpace::kGeneric;
};

// Slots: the address. The line's values are lost.
Outcome run_discard(Warp& warp, const Op& op, Lanes lanes) {
  const Discard& discard = op.get<Discard>();
  warp.require_valid(discard.address.slot, op, lanes, "the address");
  Accesses accesses(warp, op, lanes);
  for_each_lane(lanes, [&](int lane) {
    const Memory memory = resolve_written(warp, op, lane, discard.space,
                                          address_of(warp, discard.address, lane), kLineBytes);
    accesses.add(memory, kLineBytes);
    memory.set_written(0, kLineBytes, false);
  });
  accesses.check_write();
  return Outcome::kDone;
}

void decode_discard(Decoder& decoder) {
  Discard discard;
  discard.space = decoder.take("global") ? MemorySpace::kGlobal : MemorySpace::kGeneric;
  decoder.require("L2");
  require_line(decoder);
  discard.address = decoder.add_address(0);
  decoder.op().details.set(discard);
  decoder.op().code = &run_discard;
}

// Slots: the policy, which no instruction looks at.
Outcome run_createpolicy(Warp& warp, const Op& op, Lanes lanes) {
  warp.fill(op.slots[0], std::uint64_t{0}, lanes);
  return Outcome::kDone;
}

void decode_createpolicy(Decoder& decoder) {
  decoder.require("b64");
  if (decoder.take("cvt")) {
    decoder.require("L2");
    decoder.add_operands(64, {Type::kB64});
  } else {
    const bool is_range = decoder.take("range");
    if (is_range) {
      decoder.take("global");
    } else {
      decoder.require("fractional");
    }
    decoder.take_one_of(
        {"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
    decoder.take_any_of({"L2::evict_first", "L2::evict_unchanged"});
    decoder.expect_operands(is_range ? 4 : 1, is_range ? 4 : 2);
    decoder.add(decoder.destination(0, 64));
    if (is_range) {
      decoder.add_address(1);
      decoder.add(decoder.source(2, Type::kB32));
      decoder.add(decoder.source(3, Type::kB32));
    } else if (decoder.instruction().operands.size() == 2) {
      decoder.add(decoder.source(1, Type::kF32));
    }
  }
  decoder.op().code = &run_createpolicy;
}

void decode_nanosleep(Decoder& decoder) {
  decoder.require("u32");
  decoder.expect_operands(1);
  decoder.add(decoder.source(0, Type::kB32));
  decoder.op().code = &run_nothing;
}

void decode_pmevent(Decoder& decoder) {
  decoder.take("mask");
  decoder.expect_operands(1);
  static_cast<void>(decoder.immediate(0));
  decoder.op().code = &run_nothing;
}

constexpr std::array kOperations = {
    Operation{"prefetch", &decode_prefetch},
    Operation{"prefetchu", &decode_prefetchu},
    Operation{"applypriority", &decode_applypriority},
    Operation{"discard", &decode_discard},
    Operation{"createpolicy", &decode_createpolicy},
    Operation{"nanosleep", &decode_nanosleep},
    Operation{"pmevent", &decode_pmevent},
};

}  // namespace

Outcome run_nothing(Warp& /*warp*/, const Op& /*op*/, Lanes /*lanes*/) {
  return Outcome::kDone;
}

std::span<const Operation> hint_operations() {
  return kOperations;
}

}  // namespace emu
