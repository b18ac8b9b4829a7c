// How `fovea similar` describes photos: in lines, in JSON and on the page.
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

/// "1 photo", "2 photos".
[[nodiscard]] std::string count_of(std::int64_t count, std::string_view what);

/// "3.1 MB", in powers of 1000.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// The name of a class of duplicates, as for --only.
[[nodiscard]] const char* class_name(Likeness likeness);

/// The name of the photo that a member duplicates, when that is another member; else "".
[[nodiscard]] std::string original_of(const DuplicateGroup& group, const Duplicate& member);

/// Describes the photos of one search.
class PhotoReport {
 public:
  explicit PhotoReport(std::vector<std::filesystem::path> outputs) : outputs_(std::move(outputs)) {}

  /// The heading above line(); `first` is the heading of the first columns.
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

  /// The output that a photo is in, when there are several; else "".
  [[nodiscard]] std::string output_of(const Photo& photo) const;

 private:
  std::vector<std::filesystem::path> outputs_;
};

}  // namespace fovea::cli
