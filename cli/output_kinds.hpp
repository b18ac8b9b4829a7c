// What outputs are: their names, and what tells that Fovea wrote one.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outputs.hpp"

namespace fovea::cli {

struct KindOfOutput {
  OutputKind kind;
  std::string_view name;  // in `fovea manual --json`
  std::string_view what;  // in messages: "an HTML page"
  /// Extensions of its names; others are refused when they are known to mean something else.
  std::vector<std::string_view> endings;
  /// Whether Fovea wrote the file, as far as its content tells. Null: the command judges itself.
  bool (*is_ours)(const std::filesystem::path& file) = nullptr;
  /// What an option's value stands for. Null: the file of that name.
  std::vector<std::filesystem::path> (*files)(const std::string& value) = nullptr;
  bool is_folder = false;

  [[nodiscard]] bool allows(std::string_view ending) const;
  [[nodiscard]] std::vector<std::filesystem::path> files_of(const std::string& value) const;
};

/// All kinds, in the order of OutputKind.
[[nodiscard]] std::span<const KindOfOutput> output_kinds();

/// Whether the file begins as an image that can be embedded does.
[[nodiscard]] bool is_image(const std::filesystem::path& file);

// What only the laboratory can tell: recorded results of cases, and the files of a profile that an
// option's value stands for.
[[nodiscard]] bool are_captures(const std::filesystem::path& file);
[[nodiscard]] std::vector<std::filesystem::path> profile_files(const std::string& value);

/// What kind_by_name() says, for messages: "an image", "json".
[[nodiscard]] std::string in_words(std::string_view kind);

}  // namespace fovea::cli
