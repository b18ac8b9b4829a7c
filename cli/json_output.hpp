// --json[=FILE], the same in every command that prints data.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

namespace fovea::cli {

/// Where a command's JSON goes: nowhere, to the standard output instead of text, or to a file, with
/// text on the standard output as without it.
class JsonOutput {
 public:
  /// Adds --json[=FILE] to `command`; a FILE in a folder that does not exist is refused. This
  /// object must live as long as the command.
  CLI::Option* add_to(CLI::App& command);

  [[nodiscard]] bool is_wanted() const { return to_stdout() || !file().empty(); }
  [[nodiscard]] bool to_stdout() const;
  /// The file, or "".
  [[nodiscard]] std::string file() const;
  /// Whether the command prints its results as text.
  [[nodiscard]] bool leaves_text() const { return !to_stdout(); }

  /// Writes where it is wanted; files appear whole.
  void write(const nlohmann::ordered_json& json) const;

 private:
  std::string value_;
};

/// `--json FILE` would make the file an input. Throws CLI::ValidationError when a word that ends in
/// .json follows --json, unless that file exists: it is an input, such as a model's config.json. It
/// throws for `--json=`, too.
void refuse_separate_json_file(const std::vector<std::string>& words);

/// The shortest decimal number that reads back as `value`: 0.1 for 0.1F.
[[nodiscard]] double short_number(float value);

}  // namespace fovea::cli
