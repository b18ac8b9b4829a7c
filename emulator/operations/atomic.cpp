// atom and red: atomic read-modify-write operations on global and shared memory.
#include <array>
#include <cstring>
#include <utility>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/atomic_values.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Slots: the address. `list`: the previous values (kNoSlot: not kept), the operands and, for cas,
// the second operand.
struct AtomicAccess {
  AtomicCode code{};
  AddressOperand address{};
  MemorySpace space = MemorySpace::kGeneric;
  std::uint8_t count = 1;          // number of registers
  std::uint8_t register_bits = 0;  // size of a register
  bool is_exchange = false;        // ignores the old value
  bool is_swap = false;            // cas
  races::StrongAccess strength{};
};

// Applies the operation to a register's elements in memory.
std::uint64_t compute(const AtomicAccess& access, bool is_global, std::uint64_t old,
                      std::uint64_t a, std::uint64_t b) {
  const ComputeAtomic code = is_global ? access.code.global : access.code.shared;
  const unsigned bits = access.code.element_bits;
  if (bits == access.register_bits) {
    return code(old, a, b);
  }
  std::uint64_t result = 0;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  for (unsigned shift = 0; shift < access.register_bits; shift += bits) {
    result |= code(old >> shift & mask, a >> shift & mask, b) << shift;
  }
  return result;
}

// Applies the operation lane by lane, beginning at a lane that the seed determines.
Outcome run_atomic(Warp& warp, const Op& op, Lanes lanes) {
  const AtomicAccess access = op.get<AtomicAccess>();
  warp.require_valid(access.address.slot, op, lanes, "the address");
  const std::size_t element = access.register_bits / 8U;
  const std::size_t bytes = element * access.count;
  std::array<Vec<std::uint64_t>, 8> a;
  std::array<Vec<std::uint64_t>, 8> previous{};
  std::array<Lanes, 8> valid{};
  for (std::size_t i = 0; i < access.count; ++i) {
    a.at(i) = read_bits(warp, op.list[access.count + i], access.register_bits);
  }
  Vec<std::uint64_t> b{};
  Lanes valid_second = kAllLanes;
  if (access.is_swap) {
    b = read_bits(warp, op.list[2], access.register_bits);
    valid_second = warp.valid(op.list[2]);
  }
  std::array<Memory, kLanes> places;
  const LaneAccesses lane_accesses(warp, op, true);
  const auto apply = [&](int lane) {
    const std::uint64_t address = address_of(warp, access.address, lane);
    const Memory memory = resolve_written(warp, op, lane, access.space, address, bytes);
    places.at(static_cast<std::size_t>(lane)) = memory;
    lane_accesses.check(lane, memory, bytes, true);
    for (std::size_t i = 0; i < access.count; ++i) {
      std::uint64_t old = 0;
      std::memcpy(&old, memory.bytes + i * element, element);
      const std::uint64_t value =
          compute(access, memory.block == nullptr, old, a.at(i).lanes[lane], b.lanes[lane]);
      std::memcpy(memory.bytes + i * element, &value, element);
      const bool was_written = memory.is_written(i * element, element);
      const bool is_valid =
          (warp.valid(op.list[access.count + i]) & valid_second & lane_bit(lane)) != 0;
      const bool is_result_valid = (was_written || access.is_exchange) && is_valid;
      if (!is_result_valid && memory.allocation != nullptr) [[unlikely]] {
        report_uninitialized_store(warp, op, lane_bit(lane), address + i * element);
      }
      memory.set_written(i * element, element, is_result_valid);
      previous.at(i).lanes[lane] = old;
      valid.at(i) |= was_written ? lane_bit(lane) : 0;
    }
  };
  const auto first = static_cast<unsigned>(warp.block().grid().random() % kLanes);
  const Lanes first_lanes = lanes & (kAllLanes << first);
  for_each_lane(first_lanes, apply);
  for_each_lane(lanes & ~first_lanes, apply);
  Accesses accesses(warp, op, lanes);
  for_each_lane(lanes, [&](int lane) {
    const Memory& memory = places.at(static_cast<std::size_t>(lane));
    accesses.add(memory, bytes);
    lane_accesses.record(lane, memory, bytes, true);
  });
  accesses.check_write(access.strength.scope);
  const std::byte* last = nullptr;
  for_each_lane(lanes, [&](int lane) {
    const Memory& memory = places.at(static_cast<std::size_t>(lane));
    if (memory.bytes != std::exchange(last, memory.bytes)) {
      order_strong_access(warp, memory, bytes, access.strength, true);
    }
  });
  for (std::size_t i = 0; i < access.count; ++i) {
    if (op.list[i] != kNoSlot) {
      write_bits(warp, op.list[i], access.register_bits, previous.at(i), lanes, valid.at(i));
    }
  }
  return Outcome::kDone;
}

void decode_atomic(Decoder& decoder) {
  if (decoder.take("async")) {
    decode_remote_store(decoder);
    return;
  }
  Op& op = decoder.op();
  const bool has_result = decoder.mnemonic() == "atom";
  const auto operation = static_cast<Atomic>(decoder.take_index_of(kAtomicNames));
  AtomicAccess access{.is_exchange = operation == Atomic::kExchange,
                      .is_swap = operation == Atomic::kCompareAndSwap};
  if (!has_result && (access.is_exchange || access.is_swap)) {
    decoder.fail("red has no such operation");
  }
  access.strength = take_order(decoder, has_result, true, true);
  access.space = take_shared_space(decoder);
  if (access.space == MemorySpace::kGeneric && decoder.take("global")) {
    access.space = MemorySpace::kGlobal;
  }
  const bool has_policy = decoder.take("L2::cache_hint");
  access.count = decoder.take("v2") ? 2 : decoder.take("v4") ? 4 : decoder.take("v8") ? 8 : 1;
  const Type type = decoder.take_type();
  const int bits = bits_of(type);
  if (access.count * bits > 128 || (access.count > 1 && (!is_float(type) || type == Type::kF64))) {
    decoder.fail("unsupported vector");
  }
  if (access.count > 1 && access.space != MemorySpace::kGlobal &&
      access.space != MemorySpace::kGeneric) {
    decoder.fail("vectors are supported in global memory only");
  }
  access.register_bits = static_cast<std::uint8_t>(bits);
  access.code = atomic_code(type, operation, access.count > 1);
  if (access.code.global == nullptr) {
    decoder.fail("unsupported type");
  }
  if (is_float(type) && access.code.element_bits == 16) {
    decoder.require("noftz");
  }
  const std::size_t next = has_result ? 1 : 0;
  decoder.expect_operands(next + (access.is_swap ? 3 : 2) + (has_policy ? 1 : 0));
  const bool keeps_result = has_result && decoder.operand(0).kind != syntax::OperandKind::kSink;
  if (keeps_result) {
    for (const syntax::Operand& part : decoder.parts(0, access.count)) {
      op.list.push_back(part.kind == syntax::OperandKind::kSink ? kNoSlot
                                                                : decoder.destination(part, bits));
    }
  } else {
    op.list.resize(access.count, kNoSlot);
  }
  access.address = decoder.add_address(next);
  for (const syntax::Operand& part : decoder.parts(next + 1, access.count)) {
    op.list.push_back(decoder.source(part, type));
  }
  if (access.is_swap) {
    op.list.push_back(decoder.source(next + 2, type));
  }
  if (has_policy) {
    static_cast<void>(decoder.source(next + (access.is_swap ? 3 : 2), Type::kB64));
  }
  op.details.set(access);
  op.code = &run_atomic;
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
