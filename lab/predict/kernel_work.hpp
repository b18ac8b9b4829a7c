// What a case asks of the kernel that runs it, in the units that its instructions are counted in.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lab/cards/card.hpp"

namespace fovea::lab {

/// How much there is of the two units that a kernel's instructions are counted by; the second is 0
/// where one tells it all.
using WorkSizes = std::array<double, 2>;

/// A smaller problem by the same kernel, that the emulator runs.
struct SmallProblem {
  std::string fields;  // "m=512,n=768,k=768", as find_case takes it
  WorkSizes sizes{};
};

struct KernelWork {
  std::array<std::string_view, 2> units{};  // "tile"
  WorkSizes sizes{};
  std::array<SmallProblem, 2> counted{};

  double pieces = 0;             // that SMs take one by one: tiles, items; 0: as small as may be
  double chains = 0;             // of products and what follows them, in that order; 0: no such
  double chain_warps = 4;        // that run a chain together
  double in_flight = 1;          // chains that an SM runs beside each other
  bool chain_multiplies = true;  // else other warps do
  double step_products = 0;      // multiply-adds of a tcgen05.mma by two CTAs
  double step_passes = 0;        // of 128 bytes of both CTAs' shared memory that it reads
  double l2_read_bytes = 0;
  double l2_write_bytes = 0;
  double dram_bytes = 0;
  bool is_integer = false;  // its products
  bool is_wide = false;     // of two bytes
};

/// Whether kernels of several designs run the workload, so that work_of() has to know which does.
[[nodiscard]] bool has_plans(const Workload& workload);

/// The work of the workload, by the kernel, on so many SMs. Throws fovea::Error when there is no
/// model of it.
[[nodiscard]] KernelWork work_of(const Workload& workload, std::string_view kernel, int sms);

}  // namespace fovea::lab
