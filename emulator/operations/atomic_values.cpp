// Values of atomic operations: what they make of an element in memory and an operand.
#include "emulator/operations/atomic_values.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "emulator/operations/floating.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/number_formats.hpp"

namespace emu {
namespace {

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
ComputeAtomic integer_code(Atomic operation) {
  constexpr auto kCodes = []<std::size_t... kNumbers>(std::index_sequence<kNumbers...>) {
    return std::array<ComputeAtomic, sizeof...(kNumbers)>{
        &compute_integer<T, static_cast<Atomic>(kNumbers)>...};
  }(std::make_index_sequence<kAtomicNames.size()>{});
  return kCodes.at(static_cast<std::size_t>(operation));
}

// Adds binary32 numbers. Atomic operations in global memory flush subnormal numbers, those in
// shared memory do not.
template <bool kFlushes>
std::uint64_t add_single(std::uint64_t old, std::uint64_t a, std::uint64_t /*b*/) {
  auto x = std::bit_cast<float>(static_cast<std::uint32_t>(old));
  auto y = std::bit_cast<float>(static_cast<std::uint32_t>(a));
  if constexpr (kFlushes) {
    return std::bit_cast<std::uint32_t>(
        canonicalize_nan(flush_to_zero(flush_to_zero(x) + flush_to_zero(y))));
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

// Returns the code for floats; nullptrs if there is none.
AtomicCode float_code(Type type, Atomic operation) {
  const auto same = [](ComputeAtomic code) { return AtomicCode{.shared = code, .global = code}; };
  const bool is_add = operation == Atomic::kAdd;
  const bool is_min = operation == Atomic::kMin;
  if (!is_add && !is_min && operation != Atomic::kMax) {
    return {};
  }
  switch (type) {
    case Type::kF32:
      return is_add ? AtomicCode{.shared = &add_single<false>, .global = &add_single<true>}
                    : AtomicCode{};
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

// Returns the code for whole numbers; nullptr if there is none.
ComputeAtomic integer_code(Type type, Atomic operation) {
  const bool is_bits = type == Type::kB32 || type == Type::kB64;
  bool is_known = false;
  switch (operation) {
    case Atomic::kExchange:
    case Atomic::kCompareAndSwap:
      is_known = is_bits || type == Type::kB16;
      break;
    case Atomic::kAnd:
    case Atomic::kOr:
    case Atomic::kXor:
      is_known = is_bits;
      break;
    case Atomic::kIncrement:
    case Atomic::kDecrement:
      is_known = type == Type::kU32;
      break;
    case Atomic::kAdd:
      is_known = type == Type::kU32 || type == Type::kS32 || type == Type::kU64;
      break;
    case Atomic::kMin:
    case Atomic::kMax:
      is_known = !is_bits && bits_of(type) >= 32;
      break;
  }
  if (!is_known) {
    return nullptr;
  }
  switch (bits_of(type)) {
    case 16:
      return integer_code<std::uint16_t>(operation);
    case 32:
      return is_signed(type) ? integer_code<std::int32_t>(operation)
                             : integer_code<std::uint32_t>(operation);
    default:
      return is_signed(type) ? integer_code<std::int64_t>(operation)
                             : integer_code<std::uint64_t>(operation);
  }
}

}  // namespace

AtomicCode atomic_code(Type type, Atomic operation, bool is_vector) {
  AtomicCode code;
  const bool is_half = is_float(type) && type != Type::kF32 && type != Type::kF64;
  if (!is_float(type)) {
    code.shared = is_vector ? nullptr : integer_code(type, operation);
    code.global = code.shared;
  } else if (!is_half || operation == Atomic::kAdd || is_vector) {
    code = float_code(type, operation);
  }
  code.element_bits = static_cast<std::uint8_t>(is_half ? 16 : bits_of(type));
  return code;
}

}  // namespace emu
