// --json[=FILE], the same in every command that prints data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace fovea::cli {

/// The prefix of the "kind" of every JSON document.
inline constexpr std::string_view kKindPrefix = "fovea.";

/// Where a command's JSON goes: nowhere, to the standard output instead of text, or to a file, with
/// text on the standard output as without it.
class JsonOutput {
 public:
  /// Adds --json[=FILE] to `command`. This object must live as long as the command.
  CLI::Option* add_to(CLI::App& command);

  [[nodiscard]] bool is_wanted() const { return to_stdout() || !file().empty(); }
  [[nodiscard]] bool to_stdout() const;
  /// The file, or "".
  [[nodiscard]] std::string file() const;
  /// Whether the command prints its results as text.
  [[nodiscard]] bool leaves_text() const { return !to_stdout(); }

  /// Writes the envelope and the fields of the object `body` where they are wanted; files appear
  /// whole.
  void write(const nlohmann::ordered_json& body, std::string_view kind = "") const;
  /// {"kind": "fovea.kernel.check", "version": 1} and the fields of `body`. The kind is the chosen
  /// command's words, with `kind` in the place of the last where its JSON has several forms.
  [[nodiscard]] nlohmann::ordered_json envelope(const nlohmann::ordered_json& body,
                                                std::string_view kind = "") const;

  /// The file that a value of the option names, or "".
  [[nodiscard]] static std::string file_of(const std::string& value);

 private:
  std::string value_;
  const CLI::App* command_ = nullptr;
};

/// `--json FILE` would make the file an input. Throws CLI::ValidationError when a word that ends in
/// .json follows --json, unless that file exists: it is an input, such as a model's config.json. It
/// throws for `--json=`, too.
void refuse_separate_json_file(const std::vector<std::string>& words);

/// Returns the value as JSON, or null when `known` is false.
[[nodiscard]] nlohmann::ordered_json or_null(bool known, const nlohmann::ordered_json& value);

/// The shortest decimal number that reads back as `value`: 0.1 for 0.1F.
[[nodiscard]] double short_number(float value);

}  // namespace fovea::cli
