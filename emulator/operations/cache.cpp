// Hints to caches, which have no effect here: prefetch, applypriority, createpolicy; and discard.
#include <array>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

Outcome run_nothing(Warp& /*warp*/, const Op& /*op*/, Lanes /*lanes*/) {
  return Outcome::kDone;
}

// Decodes prefetch and applypriority, hints without effect; their addresses are not checked.
void decode_prefetch(Decoder& decoder) {
  const bool is_priority = decoder.mnemonic() == "applypriority";
  if (decoder.take("tensormap")) {
    decoder.take_any_of({"const", "param"});
  } else {
    decoder.take_any_of({"global", "local"});
    if (is_priority) {
      decoder.require("L2::evict_normal");
    } else {
      decoder.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
    }
  }
  decoder.expect_operands(is_priority ? 2 : 1);
  decoder.op().code = &run_nothing;
}

// Writes a cache policy, whose value means nothing here.
Outcome run_policy(Warp& warp, const Op& op, Lanes lanes) {
  warp.fill(op.slots[0], std::uint64_t{0}, lanes);
  return Outcome::kDone;
}

void decode_policy(Decoder& decoder) {
  if (decoder.take("fractional")) {
    decoder.expect_operands(1, 2);
  } else if (decoder.take("range")) {
    decoder.take("global");
    decoder.expect_operands(4);
  } else {
    decoder.require("cvt");
    decoder.require("L2");
    decoder.expect_operands(2);
  }
  // The first priority is of what the policy is for, the second of all else.
  for (int i = 0; i < 2; ++i) {
    decoder.take_any_of({"L2::evict_last", "L2::evict_normal", "L2::evict_first",
                         "L2::evict_unchanged"});
  }
  decoder.require("b64");
  decoder.add(decoder.destination(0, 64));
  decoder.op().code = &run_policy;
}

constexpr std::size_t kDiscardedBytes = 128;

// Makes a line of global memory uninitialised. Slots: the address.
Outcome run_discard(Warp& warp, const Op& op, Lanes lanes) {
  const AddressOperand operand = op.get<AddressOperand>();
  warp.require_valid(operand.slot, op, lanes, "the address");
  Accesses accesses(warp, op, lanes);
  for_each_lane(lanes, [&](int lane) {
    const Memory memory = resolve(warp, op, lane, MemorySpace::kGlobal,
                                  address_of(warp, operand, lane), kDiscardedBytes);
    memory.set_written(0, kDiscardedBytes, false);
    accesses.add(memory, kDiscardedBytes);
  });
  accesses.check_write();
  return Outcome::kDone;
}

void decode_discard(Decoder& decoder) {
  decoder.take("global");
  decoder.require("L2");
  decoder.expect_operands(2);
  if (decoder.immediate(1) != static_cast<std::int64_t>(kDiscardedBytes)) {
    decoder.fail("expected a size of 128 bytes");
  }
  decoder.op().details.set(decoder.add_address(0));
  decoder.op().code = &run_discard;
}

constexpr std::array kOperations = {
    Operation{"prefetch", &decode_prefetch},  Operation{"prefetchu", &decode_prefetch},
    Operation{"applypriority", &decode_prefetch}, Operation{"createpolicy", &decode_policy},
    Operation{"discard", &decode_discard},
};

}  // namespace

std::span<const Operation> cache_operations() {
  return kOperations;
}

}  // namespace emu
