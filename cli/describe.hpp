// The commands and their options as data, from which help, completion and the manual are made.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace fovea::cli {

struct OptionText {
  std::vector<std::string> names;  // "-m", "--model"; of a position one without dashes
  std::string value;               // "MODEL", "auto|cpu|cuda"; "" for a switch and most positions
  std::string help;
  std::string range;     // "at least 1"
  std::string initial;   // the default, or ""
  std::string variable;  // "FOVEA_MODEL", or ""
  std::string group;
  std::string output;  // what it writes ("page"), or ""; see cli/outputs.hpp
  bool is_position = false;
  bool required = false;
  bool repeats = false;  // a position that may occur several times
  bool is_list = false;  // of values with commas between them

  /// The words that the value may be; empty when they are not listed.
  [[nodiscard]] std::vector<std::string> choices() const;
  /// The value as heads and usages show it: NAME where it is a long list of words, which
  /// full_help() has instead.
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
  /// The last word of the command line that calls it.
  [[nodiscard]] std::string name() const;
};

/// Describes a command and those below it that are not hidden.
[[nodiscard]] CommandText describe(const CLI::App& command);

/// The same for programs, as `fovea manual --json` prints it.
[[nodiscard]] nlohmann::ordered_json to_json(const CommandText& command);

/// Sets what describe() finds as notes (paragraphs) and examples (command lines).
void explain(CLI::App& command, const std::vector<std::string>& notes,
             const std::vector<std::string>& examples);

/// The paragraph about exit codes of commands that continue when an input fails.
inline constexpr const char* kJobExitCodes =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 done but some inputs failed, 130 interrupted.";

}  // namespace fovea::cli
