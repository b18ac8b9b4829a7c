// Help in 80 columns, and messages about wrong command lines.
#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "cli/describe.hpp"

namespace fovea::cli {

/// Returns the text that `fovea COMMAND --help` prints.
[[nodiscard]] std::string help_text(const CommandText& command);

/// Finds the subcommand of `app` that `words` name ("kernel", "check"). Throws CLI::ParseError with
/// similar names when there is none.
[[nodiscard]] const CLI::App* find_command(const CLI::App* app, std::span<const std::string> words);

/// Describes an error of the command line and suggests what to type instead, in lines.
[[nodiscard]] std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace fovea::cli
