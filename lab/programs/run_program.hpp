// A whole program in the emulator: it is started with the library in the place of CUDA's.
#pragma once

#include <string>
#include <vector>

#include "lab/programs/journal.hpp"
#include "lab/programs/settings.hpp"

namespace fovea::programs {

struct ProgramResult {
  int exit_code = 0;  // 128 plus the number of the signal if the program was killed
  JournalSummary summary{};
};

/// Runs a program, given by its path or by a name on the PATH, with the standard streams of this
/// process, and waits for its end. Sets the journal of `settings`. Throws fovea::Error if it cannot
/// be started, or if the library is not beside this program.
[[nodiscard]] ProgramResult run_program(const std::vector<std::string>& arguments,
                                        Settings settings);

}  // namespace fovea::programs
