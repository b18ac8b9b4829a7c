// FOVEA_* variables: those that set options, those of the engine, and those that are misspelt.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

namespace fovea::cli {

/// Lets the options of a command take their values from variables, once the command is chosen.
void take_environment_when_chosen(CLI::App& app);

/// "from the environment: FOVEA_DEVICE=cuda", when options of the chosen command have their values
/// from there; else "".
[[nodiscard]] std::string environment_note(const CLI::App& app);

/// Removes the variables that set options, once they are taken: commands that run this program
/// again tell it all that it needs.
void forget_option_variables();

/// A variable that the engine reads itself, and what it does.
struct EngineVariable {
  std::string_view name;
  std::string_view help;
};
[[nodiscard]] std::span<const EngineVariable> engine_variables();

/// A sentence for each FOVEA_* variable of this process that nothing reads.
[[nodiscard]] std::vector<std::string> unknown_variables(const CLI::App& app);

}  // namespace fovea::cli
