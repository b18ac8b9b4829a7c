// A warp's part of one wgmma.mma_async: its form, and the asynchronous work that computes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

#include "emulator/machine/async_work.hpp"
#include "emulator/operations/matrix_descriptor.hpp"
#include "emulator/operations/matrix_fragments.hpp"
#include "emulator/operations/tensor_arithmetic.hpp"

namespace emu {

constexpr std::size_t kWarpsPerWarpgroup = 4;
constexpr std::size_t kRowsPerWarp = 16;  // the warp's share of the 64 rows of A and D
constexpr std::size_t kMaxColumns = 256;  // N
constexpr std::size_t kRegistersForA = 4;
constexpr std::uint16_t kWordsOfLine = 8;  // lines of A and B have 32 bytes

/// Details of a wgmma.mma_async.
struct WgmmaForm {
  Element a = Element::kF16;
  Element b = Element::kF16;
  std::size_t columns = 0;
  bool is_a_in_registers = false;
  bool is_a_k_major = true;
  bool is_b_k_major = true;
  bool is_a_negated = false;
  bool is_b_negated = false;
  bool is_scale_negated = false;  // the predicate is !p
  bool is_saturating = false;     // integers
  Accumulator accumulator = Accumulator::kF32;
  const Fragment* a_registers = nullptr;  // the warp's rows of A, if A is in registers

  [[nodiscard]] std::size_t depth() const { return 32 / bytes_of(a); }
  /// Sums in a register of the accumulators, and the number of these registers.
  [[nodiscard]] std::size_t parts() const { return accumulator == Accumulator::kF16 ? 2 : 1; }
  [[nodiscard]] std::size_t accumulators() const { return columns / 2 / parts(); }
  [[nodiscard]] MatrixShape shape_of_a() const {
    return {kWarpsPerWarpgroup * kRowsPerWarp, depth(), bytes_of(a), is_a_k_major};
  }
  [[nodiscard]] MatrixShape shape_of_b() const {
    return {columns, depth(), bytes_of(b), is_b_k_major};
  }
};

/// Computes 16 rows of D, from row 16 * (warp % 4) on, from the same rows of A and all of B. Reads
/// A, B and D when it steps, which is after the warp's earlier products and after all warps of the
/// group have issued it.
class WgmmaProduct : public AsyncWork {
 public:
  /// `place` is the number of the instruction among those that the warpgroup issues.
  WgmmaProduct(Warp& warp, const Op& op, std::array<std::uint64_t, 2> descriptors, bool adds,
               std::uint64_t number, std::uint64_t place)
      : AsyncWork(warp, op, kAllLanes),
        descriptors_(descriptors),
        adds_(adds),
        number_(number),
        place_(place) {}

  [[nodiscard]] bool can_step() const override;
  bool step(std::mt19937_64& random) override;
  [[nodiscard]] bool needs(const Block& block) const override;

 private:
  std::array<std::uint64_t, 2> descriptors_;
  bool adds_;  // adds to D; else overwrites it
  std::uint64_t number_;
  std::uint64_t place_;
};

}  // namespace emu
