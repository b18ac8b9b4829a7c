// LeftOut: counts what folders and archives hold beside inputs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "fovea/job.hpp"

namespace fovea::pipeline {

/// Counts the files in folders and archives that are not inputs. Not thread-safe: sources update it
/// while they list.
class LeftOut {
 public:
  /// `output`: the output folder of the job, whose files are not counted, because they differ
  /// between runs of the same job; empty when there is none.
  explicit LeftOut(std::filesystem::path output = {}) : output_(std::move(output)) {}

  void add_file(std::string_view kind, std::string_view path);
  void add_member(std::string_view kind, std::string_view name);
  /// Counts a link to a folder that is read by another name.
  void add_linked(std::string_view folder);
  /// Notes a folder among the inputs in which there was no input at all.
  void add_empty(std::string_view folder) { empty_.emplace_back(folder); }

  /// Whether this is the folder in which the job writes.
  [[nodiscard]] bool is_output_folder(const struct stat& folder) const;
  /// Whether a file in that folder is one of those that the job writes.
  [[nodiscard]] bool is_output(std::string_view name) const;

  [[nodiscard]] const FileCounts& counts() const { return counts_; }
  /// Adds the counts to the report, and emits notes on files that a user may miss.
  void tell(JobReport& report, const JobControl& control) const;
  /// Returns the names of empty folders, each ending in '/'.
  [[nodiscard]] const std::vector<std::string>& empty_folders() const { return empty_; }

  /// Throws fovea::Error for inputs without any image: says what they hold instead, and what to do.
  [[noreturn]] void fail_without_images(const InputOptions& input) const;

 private:
  void add(std::string_view kind);

  std::filesystem::path output_;
  FileCounts counts_;
  std::vector<std::string> empty_;
  std::vector<std::string> linked_;          // the first ones
  std::string first_tar_;                    // in a folder
  std::vector<std::string> member_endings_;  // the first ones
};

}  // namespace fovea::pipeline
