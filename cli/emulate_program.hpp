// `fovea emulate -- PROGRAM`: runs a whole program with the emulator in the place of the GPU.
#pragma once

#include <string>
#include <vector>

#include "cli/emulate_checks.hpp"
#include "cli/emulate_findings.hpp"
#include "cli/json_output.hpp"
#include "lab/programs/settings.hpp"

namespace fovea::cli {

struct EmulatedProgram {
  std::vector<std::string> words;  // its path, or a name on the PATH, and its arguments
  programs::Settings settings;
  const EmulateChecks& checks;
  const FindingOutputs& outputs;
  const JsonOutput& json;
};

/// Runs the program and prints a summary. Returns the exit code: kFailed where something was found,
/// kUsage where, unless the program has failed itself, the emulator has refused something or the
/// options choose launches that it has not made; otherwise the program's own. Throws fovea::Error
/// if the program cannot be started, has spoilt its journal, or a file cannot be written.
[[nodiscard]] int emulate_program(const EmulatedProgram& program);

}  // namespace fovea::cli
