// `fovea emulate -- PROGRAM`: runs a whole program with the emulator in the place of the GPU.
#pragma once

#include <string>
#include <vector>

#include "cli/json_output.hpp"
#include "lab/programs/settings.hpp"

namespace fovea::cli {

/// Runs the program and prints a summary. Returns the exit code: kFailed where something was found,
/// kUsage where the program cannot be started, and, unless it has failed itself, where the emulator
/// has refused something or the options choose launches that it has not made; otherwise the
/// program's own.
[[nodiscard]] int emulate_program(const std::vector<std::string>& program,
                                  const programs::Settings& settings, const JsonOutput& json);

}  // namespace fovea::cli
