// The work of a kernel for a case, in the units for which instructions are counted.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lab/cards/card.hpp"

namespace fovea::lab {

/// Numbers of the two kinds of units that make up a kernel's work; the second is 0 if one kind
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

  /// Indivisible pieces distributed over the SMs, such as tiles; 0: arbitrarily divisible.
  double pieces = 0;
  double chains = 0;       // sequences of dependent products and epilogues; 0: none
  double chain_warps = 4;  // warps that execute a chain together
  double in_flight = 1;    // concurrent chains per SM
  /// Whether the chain's warps issue the products, rather than other warps.
  bool chain_multiplies = true;
  double step_products = 0;  // multiply-adds of a tcgen05.mma by two CTAs
  double step_passes = 0;    // reads of 128 bytes of both CTAs' shared memory by a tcgen05.mma
  double l2_read_bytes = 0;
  double l2_write_bytes = 0;
  double dram_bytes = 0;
  bool is_integer = false;  // whether the products are of integers
  bool is_wide = false;     // whether operands have two bytes
};

/// Returns whether several kernels with different designs can run the workload, so that
/// compute_work() needs the kernel's name.
[[nodiscard]] bool has_plans(const Workload& workload);

/// Returns the work of the workload with this kernel on `sms` SMs. Throws fovea::Error if there is
/// no model for the workload.
[[nodiscard]] KernelWork compute_work(const Workload& workload, std::string_view kernel, int sms);

}  // namespace fovea::lab
