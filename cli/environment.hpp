// FOVEA_* environment variables: those that set options, those that the engine reads, and unknown
// ones, which the program warns about.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

namespace fovea::cli {

/// Makes the options of a command read their environment variables once the command is chosen.
void take_environment_when_chosen(CLI::App& app);

/// Returns "from the environment: FOVEA_DEVICE=cuda" when variables have set options of the chosen
/// command; else "".
[[nodiscard]] std::string environment_note(const CLI::App& app);

/// Unsets the variables that set options after they have been applied, so that child processes
/// running this program take options only from their command lines.
void forget_option_variables();

/// A variable that the engine reads, and its description.
struct EngineVariable {
  std::string_view name;
  std::string_view help;
};
[[nodiscard]] std::span<const EngineVariable> engine_variables();

/// Returns a warning for each FOVEA_* variable of this process that nothing reads.
[[nodiscard]] std::vector<std::string> unknown_variables(const CLI::App& app);

}  // namespace fovea::cli
