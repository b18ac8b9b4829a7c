// atom and red on shared memory: atomic read-modify-write operations.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

enum class Atomic : std::uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompareAndSwap };

constexpr std::array<std::string_view, 8> kNames = {"add", "min", "max",  "and",
                                                    "or",  "xor", "exch", "cas"};

template <typename T>
T computed(Atomic how, T old, T a, T b) {
  switch (how) {
    case Atomic::kAdd:
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                            static_cast<std::make_unsigned_t<T>>(a));
    case Atomic::kMin:
      return std::min(old, a);
    case Atomic::kMax:
      return std::max(old, a);
    case Atomic::kAnd:
      return old & a;
    case Atomic::kOr:
      return old | a;
    case Atomic::kXor:
      return old ^ a;
    case Atomic::kExchange:
      return a;
    case Atomic::kCompareAndSwap:
      return old == a ? b : old;
  }
  return old;
}

// Slots: the previous value (optional), the address, the operand, and a second operand for cas.
struct AtomicAccess {
  Atomic how = Atomic::kAdd;
  AddressOperand address{};
};

// Applies the operation lane by lane, beginning at a lane that the seed determines.
template <typename T>
Outcome run_atomic(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [how, operand] = op.get<AtomicAccess>();
  warp.require_valid(operand.slot, op, lanes, "the address");
  const bool has_second = op.slots[3] != kNoSlot;
  Vec<T> before{};
  Lanes valid = 0;
  Accesses accesses(warp, op, lanes);
  const auto apply = [&](int lane) {
    const Lanes bit = lane_bit(lane);
    const Memory memory =
        resolve(warp, op, lane, MemorySpace::kShared, address_of(warp, operand, lane), sizeof(T));
    T old;
    std::memcpy(&old, memory.bytes, sizeof(T));
    const T now = computed(how, old, warp.read_lane<T>(op.slots[2], lane),
                           has_second ? warp.read_lane<T>(op.slots[3], lane) : T{});
    std::memcpy(memory.bytes, &now, sizeof(T));
    const bool was_written = memory.is_written(0, sizeof(T));
    const Lanes given = warp.valid(op.slots[2]) & (has_second ? warp.valid(op.slots[3]) : bit);
    memory.set_written(0, sizeof(T), was_written && (given & bit) != 0);
    before.lanes[lane] = old;
    valid |= was_written ? bit : 0;
  };
  const auto first = static_cast<unsigned>(warp.block().grid().random() % kLanes);
  const Lanes early = lanes & (kAllLanes << first);
  for_each_lane(early, apply);
  for_each_lane(lanes & ~early, apply);
  for_each_lane(lanes, [&](int lane) {
    accesses.add(
        resolve(warp, op, lane, MemorySpace::kShared, address_of(warp, operand, lane), sizeof(T)),
        sizeof(T));
  });
  accesses.check_atomic();
  if (op.slots[0] != kNoSlot) {
    warp.write(op.slots[0], before, lanes, valid);
  }
  return Outcome::kDone;
}

void decode_atomic(Decoder& decoder) {
  Op& op = decoder.op();
  const bool has_result = decoder.mnemonic() == "atom";
  decoder.take("relaxed");  // relaxed is the default, and the only order supported
  decoder.take("cta");
  require_shared(decoder);
  const auto how = static_cast<Atomic>(decoder.take_number_of(kNames));
  const Type type = decoder.take_type();
  op.code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    if constexpr (sizeof(T) == 2) {
      decoder.fail("unsupported type");
    } else {
      return &run_atomic<T>;
    }
  });
  const std::size_t next = has_result ? 1 : 0;
  const bool is_swap = how == Atomic::kCompareAndSwap;
  decoder.expect_operands(next + (is_swap ? 3 : 2));
  const bool is_kept = has_result && decoder.operand(0).kind != syntax::OperandKind::kSink;
  decoder.add(is_kept ? decoder.destination(0, bits_of(type)) : kNoSlot);
  op.details.set(AtomicAccess{.how = how, .address = decoder.add_address(next)});
  decoder.add(decoder.source(next + 1, type));
  decoder.add(is_swap ? decoder.source(next + 2, type) : kNoSlot);
}

constexpr std::array kOperations = {
    Operation{"atom", &decode_atomic},
    Operation{"red", &decode_atomic},
};

}  // namespace

std::span<const Operation> atomic_operations() {
  return kOperations;
}

}  // namespace emu
