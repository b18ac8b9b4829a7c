// Help for 80 columns, and messages about errors in command lines.
#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "cli/describe.hpp"

namespace fovea::cli {

/// Returns the text that `fovea COMMAND --help` prints.
[[nodiscard]] std::string help_text(const CommandText& command);

/// Finds the subcommand of `app` with the path `words`, such as {"kernel", "check"}. Throws
/// CLI::ParseError, with suggestions, when there is none.
[[nodiscard]] const CLI::App* find_command(const CLI::App* app, std::span<const std::string> words);

/// Describes an error in the command line and suggests corrections, in several lines.
[[nodiscard]] std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace fovea::cli
