// Values of atomic operations: what they make of an element in memory and an operand.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "emulator/syntax/types.hpp"

namespace emu {

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

/// Returns the new bits of an element: of its old bits, the operand and, for cas, the second one.
using ComputeAtomic = std::uint64_t (*)(std::uint64_t old, std::uint64_t a, std::uint64_t b);

/// Code of an operation, which differs by memory for binary32.
struct AtomicCode {
  ComputeAtomic shared = nullptr;
  ComputeAtomic global = nullptr;
  std::uint8_t element_bits = 0;  // size of what it changes; less than the type's for pairs
};

/// Returns the code of an operation on a type; nullptrs if PTX has no such operation. Only vectors
/// and bulk reductions have minima and maxima of 16-bit floats.
AtomicCode atomic_code(Type type, Atomic operation, bool is_vector);

}  // namespace emu
