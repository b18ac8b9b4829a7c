// The work of a case for its kernel, in the units for which instructions are counted.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lab/cards/card.hpp"

namespace fovea::lab {

/// Amounts of the two units in which a kernel's work is measured; the second is 0 if one unit
/// suffices.
using WorkSizes = std::array<double, 2>;

/// A smaller problem for the same kernel, small enough for the emulator.
struct SmallProblem {
  std::string fields;  // for find_case(): "m=512,n=768,k=768"
  WorkSizes sizes{};
};

struct KernelWork {
  std::array<std::string_view, 2> units{};  // "tile"
  WorkSizes sizes{};
  std::array<SmallProblem, 2> counted{};

  double pieces = 0;             // indivisible pieces distributed over the SMs: tiles, items; 0:
                                 // arbitrarily small pieces
  double chains = 0;             // dependent sequences of products and epilogues; 0: none
  double chain_warps = 4;        // warps that execute a chain together
  double in_flight = 1;          // concurrent chains per SM
  bool chain_multiplies = true;  // the chain's warps issue the products; false: other warps do
  double step_products = 0;      // multiply-adds of a tcgen05.mma by two CTAs
  double step_passes = 0;        // reads of 128 bytes of both CTAs' shared memory by a tcgen05.mma
  double l2_read_bytes = 0;
  double l2_write_bytes = 0;
  double dram_bytes = 0;
  bool is_integer = false;  // integer products
  bool is_wide = false;     // two-byte operands
};

/// Returns whether kernels with different designs can run the workload, so that work_of() needs the
/// kernel.
[[nodiscard]] bool has_plans(const Workload& workload);

/// Returns the work of the workload with this kernel on so many SMs. Throws fovea::Error if there
/// is no model for it.
[[nodiscard]] KernelWork work_of(const Workload& workload, std::string_view kernel, int sms);

}  // namespace fovea::lab
