// Warp-level matrix products, mma.sync and wmma.mma: what an instruction says, and its code.
#pragma once

#include <cfenv>
#include <cstddef>
#include <cstdint>

#include "emulator/operations/matrix_forms.hpp"
#include "emulator/program/program.hpp"

namespace emu {

/// Details of a product. `list`: the registers of D, A, B and C.
struct WarpProduct {
  const Fragment* a = nullptr;
  const Fragment* b = nullptr;
  const Fragment* sums = nullptr;
  SumType c{};
  SumType d{};
  Element a_element{};
  Element b_element{};
  std::uint8_t a_registers = 0;  // with those that repeat others
  std::uint8_t b_registers = 0;
  std::uint8_t step = 0;
  bool is_transposed = false;  // D has more columns than rows
  bool is_saturating = false;
  bool is_xor = false;          // bits: counts those that differ
  bool has_scales = false;      // a power of two for each row of A and column of B
  int rounding = FE_TONEAREST;  // of doubles

  [[nodiscard]] std::size_t d_registers() const { return sums->shape.units() / d.parts; }
  [[nodiscard]] std::size_t c_registers() const { return sums->shape.units() / c.parts; }
  /// Binary16 is rounded to after each step only if C has it, too.
  [[nodiscard]] Accumulator accumulator() const {
    return c.accumulator == d.accumulator ? d.accumulator : Accumulator::kF32;
  }
};

/// Returns the code of a product that has WarpProduct as its details: of all but kQuadPairs.
Code code_of(Arithmetic arithmetic);

}  // namespace emu
