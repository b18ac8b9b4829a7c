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

constexpr std::array<std::string_view, 8> kAtomicNames = {"add", "min", "max",  "and",
                                                          "or",  "xor", "exch", "cas"};

template <typename T>
T compute_atomic(Atomic operation, T old, T a, T b) {
  switch (operation) {
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
  Atomic operation = Atomic::kAdd;
  AddressOperand address{};
};

// Applies the operation lane by lane, beginning at a lane that the seed determines.
template <typename T>
Outcome run_atomic(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [operation, operand] = op.get<AtomicAccess>();
  warp.require_valid(operand.slot, op, lanes, "the address");
  const bool has_second = op.slots[3] != kNoSlot;
  Vec<T> previous{};
  Lanes valid = 0;
  Accesses accesses(warp, op, lanes);
  const auto apply = [&](int lane) {
    const Lanes bit = lane_bit(lane);
    const Memory memory =
        resolve(warp, op, lane, MemorySpace::kShared, address_of(warp, operand, lane), sizeof(T));
    T old;
    std::memcpy(&old, memory.bytes, sizeof(T));
    const T value = compute_atomic(operation, old, warp.read_lane<T>(op.slots[2], lane),
                                   has_second ? warp.read_lane<T>(op.slots[3], lane) : T{});
    std::memcpy(memory.bytes, &value, sizeof(T));
    const bool was_written = memory.is_written(0, sizeof(T));
    const Lanes valid_operands =
        warp.valid(op.slots[2]) & (has_second ? warp.valid(op.slots[3]) : bit);
    memory.set_written(0, sizeof(T), was_written && (valid_operands & bit) != 0);
    previous.lanes[lane] = old;
    valid |= was_written ? bit : 0;
  };
  const auto first = static_cast<unsigned>(warp.block().grid().random() % kLanes);
  const Lanes first_lanes = lanes & (kAllLanes << first);
  for_each_lane(first_lanes, apply);
  for_each_lane(lanes & ~first_lanes, apply);
  for_each_lane(lanes, [&](int lane) {
    accesses.add(
        resolve(warp, op, lane, MemorySpace::kShared, address_of(warp, operand, lane), sizeof(T)),
        sizeof(T));
  });
  accesses.check_atomic();
  if (op.slots[0] != kNoSlot) {
    warp.write(op.slots[0], previous, lanes, valid);
  }
  return Outcome::kDone;
}

void decode_atomic(Decoder& decoder) {
  Op& op = decoder.op();
  const bool has_result = decoder.mnemonic() == "atom";
  decoder.take("relaxed");  // the default, and the only supported order
  decoder.take("cta");
  require_shared(decoder);
  const auto operation = static_cast<Atomic>(decoder.take_index_of(kAtomicNames));
  const Type type = decoder.take_type();
  op.code = pick_integer(decoder, type, [&]<typename T>() -> Code {
    if constexpr (sizeof(T) == 2) {
      decoder.fail("unsupported type");
    } else {
      return &run_atomic<T>;
    }
  });
  const std::size_t next = has_result ? 1 : 0;
  const bool is_swap = operation == Atomic::kCompareAndSwap;
  decoder.expect_operands(next + (is_swap ? 3 : 2));
  const bool keeps_result = has_result && decoder.operand(0).kind != syntax::OperandKind::kSink;
  decoder.add(keeps_result ? decoder.destination(0, bits_of(type)) : kNoSlot);
  op.details.set(AtomicAccess{.operation = operation, .address = decoder.add_address(next)});
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
