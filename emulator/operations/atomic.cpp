// atom and red: atomic read-modify-write operations on global and shared memory.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/number_formats.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

enum class Atomic : std::uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kIncrement,
  kDecrement,
  kExchange,
  kCompareAndSwap
};

constexpr std::array<std::string_view, 10> kAtomicNames = {"add", "min", "max", "and",  "or",
                                                           "xor", "inc", "dec", "exch", "cas"};

// Returns the new bits of an element: of its old bits, the operand and, for cas, the second one.
using Compute = std::uint64_t (*)(std::uint64_t old, std::uint64_t a, std::uint64_t b);

template <typename T, Atomic kOperation>
std::uint64_t compute_integer(std::uint64_t old_bits, std::uint64_t a_bits, std::uint64_t b_bits) {
  using Unsigned = std::make_unsigned_t<T>;
  const auto old = static_cast<T>(old_bits);
  const auto a = static_cast<T>(a_bits);
  const auto bits = [](T value) -> std::uint64_t { return static_cast<Unsigned>(value); };
  switch (kOperation) {
    case Atomic::kAdd:
      return static_cast<Unsigned>(old_bits + a_bits);
    case Atomic::kMin:
      return bits(std::min(old, a));
    case Atomic::kMax:
      return bits(std::max(old, a));
    case Atomic::kAnd:
      return old_bits & a_bits;
    case Atomic::kOr:
      return old_bits | a_bits;
    case Atomic::kXor:
      return old_bits ^ a_bits;
    case Atomic::kIncrement:
      return old >= a ? 0 : old_bits + 1;
    case Atomic::kDecrement:
      return old == 0 || old > a ? a_bits : old_bits - 1;
    case Atomic::kExchange:
      return a_bits;
    case Atomic::kCompareAndSwap:
      return old_bits == a_bits ? b_bits : old_bits;
  }
  return old_bits;
}

template <typename T>
Compute integer_code(Atomic operation) {
  constexpr auto kCodes = []<std::size_t... kNumbers>(std::index_sequence<kNumbers...>) {
    return std::array<Compute, sizeof...(kNumbers)>{
        &compute_integer<T, static_cast<Atomic>(kNumbers)>...};
  }(std::make_index_sequence<kAtomicNames.size()>{});
  return kCodes.at(static_cast<std::size_t>(operation));
}

float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

// Adds binary32 numbers. Atomic operations in global memory flush subnormal numbers, those in
// shared memory do not.
template <bool kFlushes>
std::uint64_t add_single(std::uint64_t old, std::uint64_t a, std::uint64_t /*b*/) {
  auto x = std::bit_cast<float>(static_cast<std::uint32_t>(old));
  auto y = std::bit_cast<float>(static_cast<std::uint32_t>(a));
  if constexpr (kFlushes) {
    return std::bit_cast<std::uint32_t>(canonicalize_nan(flush(flush(x) + flush(y))));
  }
  return std::bit_cast<std::uint32_t>(canonicalize_nan(x + y));
}

std::uint64_t add_double(std::uint64_t old, std::uint64_t a, std::uint64_t /*b*/) {
  return std::bit_cast<std::uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(a));
}

// Applies an operation of binary32 to 16-bit floats; its result is rounded once more, which gives
// the nearest 16-bit float.
template <float (*kValue)(std::uint16_t), std::uint16_t (*kBits)(float), Atomic kOperation>
std::uint64_t compute_half(std::uint64_t old, std::uint64_t a, std::uint64_t /*b*/) {
  const float x = kValue(static_cast<std::uint16_t>(old));
  const float y = kValue(static_cast<std::uint16_t>(a));
  return kBits(kOperation == Atomic::kAdd   ? x + y
               : kOperation == Atomic::kMin ? lesser_number(x, y)
                                            : greater_number(x, y));
}

// A function for each element of a type: what it computes in shared and in global memory.
struct AtomicCode {
  Compute shared = nullptr;
  Compute global = nullptr;
};

// Returns the code for floats; nullptrs if there is none.
AtomicCode float_code(Type type, Atomic operation) {
  const auto same = [](Compute code) { return AtomicCode{code, code}; };
  const bool is_add = operation == Atomic::kAdd;
  const bool is_min = operation == Atomic::kMin;
  if (!is_add && !is_min && operation != Atomic::kMax) {
    return {};
  }
  switch (type) {
    case Type::kF32:
      return is_add ? AtomicCode{&add_single<false>, &add_single<true>} : AtomicCode{};
    case Type::kF64:
      return is_add ? same(&add_double) : AtomicCode{};
    case Type::kF16:
    case Type::kF16x2:
      return same(is_add   ? &compute_half<&f16_value, &f16_bits, Atomic::kAdd>
                  : is_min ? &compute_half<&f16_value, &f16_bits, Atomic::kMin>
                           : &compute_half<&f16_value, &f16_bits, Atomic::kMax>);
    case Type::kBF16:
    case Type::kBF16x2:
      return same(is_add   ? &compute_half<&bf16_value, &bf16_bits, Atomic::kAdd>
                  : is_min ? &compute_half<&bf16_value, &bf16_bits, Atomic::kMin>
                           : &compute_half<&bf16_value, &bf16_bits, Atomic::kMax>);
    default:
      return {};
  }
}

// Slots: the address. `list`: the previous values (kNoSlot: not kept), the operands and, for cas,
// the second operand.
struct AtomicAccess {
  Compute shared = nullptr;
  Compute global = nullptr;
  AddressOperand address{};
  MemorySpace space = MemorySpace::kGeneric;
  std::uint8_t count = 1;          // number of registers
  std::uint8_t register_bits = 0;  // size of a register
  std::uint8_t element_bits = 0;   // size of what an operation changes; less for pairs
  bool is_exchange = false;        // ignores the old value
  bool is_swap = false;            // cas
  races::StrongAccess strength{};
};

// Applies the operation to a register's elements in memory.
std::uint64_t compute(const AtomicAccess& access, bool is_global, std::uint64_t old,
                      std::uint64_t a, std::uint64_t b) {
  const Compute code = is_global ? access.global : access.shared;
  if (access.element_bits == access.register_bits) {
    return code(old, a, b);
  }
  std::uint64_t result = 0;
  const std::uint64_t mask = (std::uint64_t{1} << access.element_bits) - 1;
  for (unsigned shift = 0; shift < access.register_bits; shift += access.element_bits) {
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
    const Memory memory = resolve(warp, op, lane, access.space, address, bytes);
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

// Chooses the code for a type, as PTX has it.
void set_code(Decoder& decoder, Type type, Atomic operation, AtomicAccess& access) {
  const int bits = bits_of(type);
  const bool is_move = access.is_exchange || access.is_swap;
  const bool is_logic =
      operation == Atomic::kAnd || operation == Atomic::kOr || operation == Atomic::kXor;
  const bool is_count = operation == Atomic::kIncrement || operation == Atomic::kDecrement;
  AtomicCode code;
  if (is_float(type)) {
    const bool is_half = type != Type::kF32 && type != Type::kF64;
    if (is_half) {
      decoder.require("noftz");
      access.element_bits = 16;
    }
    if (!is_half || operation == Atomic::kAdd || access.count > 1) {
      code = float_code(type, operation);
    }
  } else if (access.count == 1) {
    const bool is_bits = type == Type::kB32 || type == Type::kB64;
    const bool is_known = is_move    ? is_bits || type == Type::kB16
                          : is_logic ? is_bits
                          : is_count ? type == Type::kU32
                                     : !is_bits && bits >= 32 &&
                                           (type != Type::kS64 || operation != Atomic::kAdd);
    if (is_known) {
      code.shared = bits == 16            ? integer_code<std::uint16_t>(operation)
                    : bits == 64          ? is_signed(type) ? integer_code<std::int64_t>(operation)
                                                            : integer_code<std::uint64_t>(operation)
                    : type == Type::kS32 ? integer_code<std::int32_t>(operation)
                                         : integer_code<std::uint32_t>(operation);
      code.global = code.shared;
    }
  }
  if (code.global == nullptr) {
    decoder.fail("unsupported type");
  }
  access.shared = code.shared;
  access.global = code.global;
}

void decode_atomic(Decoder& decoder) {
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
  access.element_bits = access.register_bits;
  set_code(decoder, type, operation, access);
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
