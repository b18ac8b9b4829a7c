// The instruction counts of the cards' timed cases, which the emulator has counted before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "lab/predict/instruction_counts.hpp"

namespace fovea::lab {

/// A case: the kernel that runs it, and what one unit of its work takes
/// (lab/predict/kernel_work.hpp).
struct CountedCase {
  std::string card;
  std::string case_name;
  std::string kernel;
  std::uint64_t code = 0;  // code_of() when it was counted
  std::array<OperationCounts, 2> counts{};
};

/// Cases of kernels for the architecture, from lab/predict/data/, which scripts/count-instructions
/// writes; of an architecture without a file none. By card, as they are listed there.
[[nodiscard]] std::span<const CountedCase> counted_cases(int arch);

}  // namespace fovea::lab
