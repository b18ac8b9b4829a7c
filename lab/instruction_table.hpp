// The instruction counts of the cards' timed cases, which the emulator has counted before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lab/instruction_counts.hpp"

namespace fovea::lab {

/// Of a case: the kernel that runs it, and what one unit of its work takes (lab/kernel_work.hpp).
struct CountedCase {
  std::string_view card;
  std::string_view case_name;
  std::string_view kernel;
  int arch = 90;           // for which the kernel is compiled
  std::uint64_t code = 0;  // code_of(kernel, arch) when it was counted
  std::array<OperationCounts, 2> counts{};
};

/// By card, as they are listed there. scripts/count-instructions writes lab/instruction_table.cpp.
[[nodiscard]] std::span<const CountedCase> counted_cases();

}  // namespace fovea::lab
