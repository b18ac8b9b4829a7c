// Help in 80 columns, and messages about wrong command lines.
#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "cli/describe.hpp"

namespace fovea::cli {

/// What `fovea COMMAND --help` prints.
[[nodiscard]] std::string help_text(const CommandText& command);

/// The command that `words` name from `app` on ("kernel", "check"). Throws CLI::ParseError that
/// says which words may have been meant.
[[nodiscard]] const CLI::App* find_command(const CLI::App* app, std::span<const std::string> words);

/// What is wrong and what to type instead, as lines.
[[nodiscard]] std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace fovea::cli
