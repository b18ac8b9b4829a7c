// The instruction counts of the cards' timed cases, which the emulator has counted before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lab/predict/instruction_counts.hpp"

namespace fovea::lab {

/// Of a case: the kernel that runs it, and what one unit of its work takes
/// (lab/predict/kernel_work.hpp).
struct CountedCase {
  std::string_view card;
  std::string_view case_name;
  std::string_view kernel;
  std::uint64_t code = 0;  // code_of() when it was counted
  std::array<OperationCounts, 2> counts{};
};

/// Those of kernels for the architecture, 90 or 100; of others none. By card, as they are listed
/// there.
[[nodiscard]] std::span<const CountedCase> counted_cases(int arch);

// scripts/count-instructions writes these.
[[nodiscard]] std::span<const CountedCase> counted_on_sm90();
[[nodiscard]] std::span<const CountedCase> counted_on_sm100();

}  // namespace fovea::lab
