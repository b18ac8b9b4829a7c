// Formats photos for `fovea similar`: as lines, as JSON and on the page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "fovea/search.hpp"

namespace fovea::cli {

/// Returns "1 photo" or "2 photos".
[[nodiscard]] std::string count_text(std::int64_t count, std::string_view noun);

/// Returns a size such as "3.1 MB", in powers of 1000.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// Returns the name of a class of duplicates, as for --only.
[[nodiscard]] const char* class_name(Likeness likeness);

/// Returns the name of the photo that a member duplicates, if that is another member; else "".
[[nodiscard]] std::string original_name(const DuplicateGroup& group, const Duplicate& member);

/// Describes the photos of one search.
class PhotoReport {
 public:
  explicit PhotoReport(std::vector<std::filesystem::path> outputs) : outputs_(std::move(outputs)) {}

  /// Returns the heading above line(); `first` is the heading of the first columns.
  [[nodiscard]] static std::string heading(std::string_view first);
  /// Returns "     1  0.987654  4032x3024   3.1 MB  2024-05-01 12:30  photos/a.jpg": `first`, the
  /// score (blank for a kept photo), facts about the photo ("-" where unknown), and a note in
  /// brackets.
  [[nodiscard]] std::string line(std::string_view first, std::optional<double> score,
                                 const Photo& photo, std::string_view note = {}) const;
  [[nodiscard]] nlohmann::ordered_json json(const Photo& photo, double score) const;
  [[nodiscard]] nlohmann::ordered_json json(const DuplicateGroup& group) const;
  [[nodiscard]] PagePicture picture(const Photo& photo, std::optional<double> score) const;
  [[nodiscard]] PageSection section(const DuplicateGroup& group, std::size_t number) const;

  /// Returns the output that contains the photo if there are several outputs; else "".
  [[nodiscard]] std::string output_name(const Photo& photo) const;

 private:
  std::vector<std::filesystem::path> outputs_;
};

}  // namespace fovea::cli
