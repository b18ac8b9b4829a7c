// The commands and their options as data, from which help, completion and the manual are made.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace fovea::cli {

struct OptionText {
  std::vector<std::string> names;  // "-m", "--model"; one name without dashes for a positional
  std::string value;               // "MODEL", "auto|cpu|cuda"; "" for a switch and most positions
  std::string help;
  std::string range;     // "at least 1"
  std::string initial;   // the default, or ""
  std::string variable;  // "FOVEA_MODEL", or ""
  std::string group;
  std::string output;  // the kind of output that it names ("page"), or ""; see cli/outputs.hpp
  bool is_position = false;
  bool required = false;
  bool repeats = false;  // a positional that takes several arguments
  bool is_list = false;  // takes several values separated by commas

  /// The allowed values; empty when any value is allowed.
  [[nodiscard]] std::vector<std::string> choices() const;
  /// The value as head() and the usage line show it: NAME in place of a long list of choices, which
  /// full_help() shows instead.
  [[nodiscard]] std::string shown_value() const;
  [[nodiscard]] std::string full_help() const;
  /// "-m, --model MODEL", "INPUT..."
  [[nodiscard]] std::string head() const;
  /// "[at least 1; default: 10; FOVEA_NEIGHBOURS]", or "".
  [[nodiscard]] std::string facts() const;
};

struct CommandText {
  std::string path;  // "fovea kernel check"
  std::string about;
  std::string usage;
  std::vector<OptionText> options;  // positions first
  std::vector<CommandText> commands;
  std::vector<std::string> notes;     // paragraphs
  std::vector<std::string> examples;  // command lines

  /// The groups of its options, in their order.
  [[nodiscard]] std::vector<std::string> groups() const;
  /// The last word of `path`: "check".
  [[nodiscard]] std::string name() const;
};

/// Describes a command and its subcommands, except hidden ones.
[[nodiscard]] CommandText describe(const CLI::App& command);

/// The description as JSON, as `fovea manual --json` prints it.
[[nodiscard]] nlohmann::ordered_json to_json(const CommandText& command);

/// Sets the notes (paragraphs) and examples (command lines) that describe() returns.
void explain(CLI::App& command, const std::vector<std::string>& notes,
             const std::vector<std::string>& examples);

/// The note on exit codes for commands that continue when an input fails.
inline constexpr const char* kJobExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some inputs failed, 130 interrupted.";

}  // namespace fovea::cli
