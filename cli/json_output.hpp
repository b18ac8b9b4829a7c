// The option --json[=FILE], which is the same in every command that prints data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace fovea::cli {

/// The prefix of the "kind" of every JSON document.
inline constexpr std::string_view kKindPrefix = "fovea.";

/// The destination of a command's JSON: none, the standard output instead of text, or a file in
/// addition to text on the standard output.
class JsonOutput {
 public:
  /// Adds --json[=FILE] to `command`. This object must live as long as the command.
  CLI::Option* add_to(CLI::App& command);

  [[nodiscard]] bool is_requested() const { return to_stdout() || !file().empty(); }
  [[nodiscard]] bool to_stdout() const;
  /// The name of the file, or "".
  [[nodiscard]] std::string file() const;
  /// Whether the command prints its results as text.
  [[nodiscard]] bool prints_text() const { return !to_stdout(); }

  /// Writes the envelope and the fields of the object `body` to the destination; files are written
  /// atomically.
  void write(const nlohmann::ordered_json& body, std::string_view kind = "") const;
  /// Returns {"kind": "fovea.kernel.check", "version": 1} and the fields of `body`. The kind is
  /// made of the words of the chosen command; `kind` replaces the last word if the command has
  /// several forms of JSON.
  [[nodiscard]] nlohmann::ordered_json envelope(const nlohmann::ordered_json& body,
                                                std::string_view kind = "") const;

  /// Returns the file that a value of the option names, or "".
  [[nodiscard]] static std::string file_from_value(const std::string& value);

 private:
  std::string value_;
  const CLI::App* command_ = nullptr;
};

/// Throws CLI::ValidationError for `--json FILE`, which would make the file an input: when a word
/// that ends in .json follows --json, unless that file exists and so is an input, such as a model's
/// config.json. Also throws for `--json=`.
void reject_separate_json_file(const std::vector<std::string>& arguments);

/// Returns the value as JSON, or null when `known` is false.
[[nodiscard]] nlohmann::ordered_json or_null(bool known, const nlohmann::ordered_json& value);

/// Returns the shortest decimal number that reads back as `value`: 0.1 for 0.1F.
[[nodiscard]] double short_number(float value);

}  // namespace fovea::cli
