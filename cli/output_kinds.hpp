// The kinds of outputs: their names, and how to tell that Fovea wrote a file.
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
  std::string_view name;  // as in `fovea manual --json`
  std::string_view what;  // in messages: "an HTML page"
  /// Allowed extensions; others are refused when they are known to mean something else.
  std::vector<std::string_view> endings;
  /// Whether Fovea wrote the file, judging by its content. Null: the command decides by itself.
  bool (*is_ours)(const std::filesystem::path& file) = nullptr;
  /// The files that an option's value stands for. Null: the file of that name.
  std::vector<std::filesystem::path> (*files)(const std::string& value) = nullptr;
  bool is_folder = false;

  [[nodiscard]] bool allows(std::string_view ending) const;
  [[nodiscard]] std::vector<std::filesystem::path> files_of(const std::string& value) const;
};

/// All kinds, in the order of OutputKind.
[[nodiscard]] std::span<const KindOfOutput> output_kinds();

/// Whether the first bytes of the file are those of a supported image.
[[nodiscard]] bool is_image(const std::filesystem::path& file);

// Implemented by the laboratory: whether a file holds recorded results of cases, and which files of
// a profile an option's value stands for.
[[nodiscard]] bool are_captures(const std::filesystem::path& file);
[[nodiscard]] std::vector<std::filesystem::path> profile_files(const std::string& value);

/// The result of kind_by_name() as a phrase for messages: "an image", "json".
[[nodiscard]] std::string in_words(std::string_view kind);

}  // namespace fovea::cli
