// The commands and their options as data, from which help, completion and the manual are made.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace fovea::cli {

struct OptionText {
  /// Such as "-m", "--model"; a positional has one name without dashes.
  std::vector<std::string> names;
  std::string value;  // such as "MODEL" or "auto|cpu|cuda"; "" for switches and most positionals
  std::string help;
  std::string range;     // such as "at least 1"
  std::string initial;   // the default, or ""
  std::string variable;  // such as "FOVEA_MODEL", or ""
  std::string group;
  std::string output;  // kind of the output that the option names, such as "page", or ""
  bool is_position = false;
  bool required = false;
  bool repeats = false;  // whether it is a positional with several arguments
  bool is_list = false;  // whether its values are separated by commas

  /// The allowed values; empty when any value is allowed.
  [[nodiscard]] std::vector<std::string> choices() const;
  /// The value as shown by head() and the usage line: NAME instead of a long list of choices, which
  /// full_help() shows.
  [[nodiscard]] std::string shown_value() const;
  [[nodiscard]] std::string full_help() const;
  /// The names and the value, such as "-m, --model MODEL" or "INPUT...".
  [[nodiscard]] std::string head() const;
  /// The range, the default and the variable, such as "[at least 1; default: 10;
  /// FOVEA_NEIGHBOURS]", or "".
  [[nodiscard]] std::string facts() const;
};

struct CommandText {
  std::string path;  // such as "fovea kernel check"
  std::string about;
  std::string usage;
  std::vector<OptionText> options;  // positionals first
  std::vector<CommandText> commands;
  std::vector<std::string> notes;     // paragraphs
  std::vector<std::string> examples;  // command lines

  /// The groups of the command's options, in the order of help.
  [[nodiscard]] std::vector<std::string> groups() const;
  /// The last word of `path`, such as "check".
  [[nodiscard]] std::string name() const;
};

/// Describes a command and its subcommands, except hidden ones.
[[nodiscard]] CommandText describe(const CLI::App& command);

/// Returns the description as JSON, in the form that `fovea manual --json` prints.
[[nodiscard]] nlohmann::ordered_json to_json(const CommandText& command);

/// Sets the notes (paragraphs) and examples (command lines) that describe() returns.
void explain(CLI::App& command, const std::vector<std::string>& notes,
             const std::vector<std::string>& examples);

/// The note on exit codes for commands that continue when an input fails.
inline constexpr const char* kJobExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some inputs failed, 130 interrupted.";

}  // namespace fovea::cli
