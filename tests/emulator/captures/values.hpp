// Inputs of micro-kernels, from a seed: splitmix64, edge values first, then random ones.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"

namespace captures {

/// Steele, Lea and Flood's splitmix64 (2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed + other_numbers()) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  /// FOVEA_CAPTURES_SEED=N draws other numbers, for a card to be asked once more.
  static std::uint64_t other_numbers() {
    static const std::uint64_t number = [] {
      const char* text = std::getenv("FOVEA_CAPTURES_SEED");
      return text == nullptr ? 0 : std::strtoull(text, nullptr, 10) * 0x100000000U;
    }();
    return number;
  }

  std::uint64_t state_;
};

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Which operand of how many: those of binary operations meet every pair of edge values.
struct Position {
  std::size_t index = 0;
  std::size_t of = 1;
};

/// One operand's values, of which each has `bits` bits.
using Fill = std::vector<std::uint64_t> (*)(std::size_t count, int bits, Position position,
                                            std::uint64_t seed);
std::vector<std::uint64_t> integers(std::size_t count, int bits, Position position,
                                    std::uint64_t seed);
/// 0 to 80, and some that are far too large.
std::vector<std::uint64_t> shifts(std::size_t count, int bits, Position position,
                                  std::uint64_t seed);
/// The same with other numbers: for the second operand of such an instruction.
std::vector<std::uint64_t> other_shifts(std::size_t count, int bits, Position position,
                                        std::uint64_t seed);
std::vector<std::uint64_t> floats(std::size_t count, int bits, Position position,
                                  std::uint64_t seed);
/// Floats of every size that is no power of the exponent's ends: for sin, cos, ex2.
std::vector<std::uint64_t> moderate_floats(std::size_t count, int bits, Position position,
                                           std::uint64_t seed);
std::vector<std::uint64_t> doubles(std::size_t count, int bits, Position position,
                                   std::uint64_t seed);
std::vector<std::uint64_t> halves(std::size_t count, int bits, Position position,
                                  std::uint64_t seed);
std::vector<std::uint64_t> bfloats(std::size_t count, int bits, Position position,
                                   std::uint64_t seed);
std::vector<std::uint64_t> half_pairs(std::size_t count, int bits, Position position,
                                      std::uint64_t seed);
std::vector<std::uint64_t> bfloat_pairs(std::size_t count, int bits, Position position,
                                        std::uint64_t seed);
/// 0 or 1.
std::vector<std::uint64_t> predicates(std::size_t count, int bits, Position position,
                                      std::uint64_t seed);
/// 0, 1, 2, ...
std::vector<std::uint64_t> counted(std::size_t count, int bits, Position position,
                                   std::uint64_t seed);
/// Two 16-bit numbers: counted, and counted from half way on.
std::vector<std::uint64_t> counted_pairs(std::size_t count, int bits, Position position,
                                         std::uint64_t seed);

Bytes random_bytes(std::size_t count, std::uint64_t seed);

/// Bits of the numbers' format.
Bytes packed(const std::vector<std::uint64_t>& values, int bits);

/// Matrix elements that are hard to add up.
enum class Nasty : std::uint8_t {
  kRandom,      // normal ones of about one size
  kWide,        // of all sizes
  kCancelling,  // few magnitudes, of both signs: what is large goes
  kSpecial,     // with NaN and infinities among them
  kSubnormal,   // about the format's smallest
  kHuge,        // sums overflow
};
enum class Number : std::uint8_t { kBF16, kF16, kE4M3, kE5M2, kS8, kU8, kF32, kS32 };
constexpr int bits_of(Number number) {
  return number == Number::kBF16 || number == Number::kF16  ? 16
         : number == Number::kF32 || number == Number::kS32 ? 32
                                                            : 8;
}
Bytes matrix_elements(Number number, Nasty nasty, std::size_t bytes, std::uint64_t seed);

}  // namespace captures
