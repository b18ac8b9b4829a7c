// The kinds of outputs: their names, and how to recognise files written by Fovea.
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
  std::string_view what;  // for messages, such as "an HTML page"
  /// Allowed extensions. Other known extensions are rejected.
  std::vector<std::string_view> endings;
  /// Whether Fovea wrote the file, judging by its content. Null: the command checks that itself.
  bool (*is_written_by_fovea)(const std::filesystem::path& file) = nullptr;
  /// The files that an option's value refers to. Null: the file of that name.
  std::vector<std::filesystem::path> (*files)(const std::string& value) = nullptr;
  bool is_folder = false;

  [[nodiscard]] bool allows(std::string_view ending) const;
  [[nodiscard]] std::vector<std::filesystem::path> output_files(const std::string& value) const;
};

/// All kinds, in the order of OutputKind.
[[nodiscard]] std::span<const KindOfOutput> output_kinds();

/// Returns whether the first bytes of the file are those of a supported image.
[[nodiscard]] bool is_image(const std::filesystem::path& file);

// Implemented by the laboratory. The first returns whether a file contains recorded outputs of
// cases, the second returns the files of a profile that an option's value refers to.
[[nodiscard]] bool is_captures_file(const std::filesystem::path& file);
[[nodiscard]] std::vector<std::filesystem::path> profile_files(const std::string& value);

/// Returns the result of kind_by_name() as a phrase for messages, such as "an image" or "json".
[[nodiscard]] std::string kind_phrase(std::string_view kind);

}  // namespace fovea::cli
