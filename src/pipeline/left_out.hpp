// LeftOut: counts the files in folders and archives that are not inputs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "fovea/job.hpp"

namespace fovea::pipeline {

/// Counts the files in folders and archives that are not inputs. Sources update it while they list
/// them. Not thread-safe.
class LeftOut {
 public:
  /// `output`: the output of the job, or empty. Its files are not counted, because they differ
  /// between runs of the same job.
  explicit LeftOut(std::filesystem::path output = {}) : output_(std::move(output)) {}

  void add_file(std::string_view kind, std::string_view path);
  void add_member(std::string_view kind, std::string_view name);
  /// Counts a link to a folder that is read by another name.
  void add_linked_folder(std::string_view folder);
  /// Notes an input folder that contains no input at all.
  void add_empty_folder(std::string_view folder) { empty_folders_.emplace_back(folder); }

  /// Returns whether this is the folder into which the job writes.
  [[nodiscard]] bool is_output_folder(const struct stat& folder) const;
  /// Returns whether the job writes a file of this name into that folder.
  [[nodiscard]] bool is_output(std::string_view name) const;

  [[nodiscard]] const FileCounts& counts() const { return counts_; }
  /// Stores the counts in the report, and emits a note on linked folders that are not read twice.
  void report_to(JobReport& report, const JobControl& control) const;
  /// Returns the names of empty folders, each ending in '/'.
  [[nodiscard]] const std::vector<std::string>& empty_folders() const { return empty_folders_; }

  /// Throws fovea::Error for inputs without any image: describes their files, and suggests options.
  [[noreturn]] void fail_without_images(const InputOptions& input) const;

 private:
  void add(std::string_view kind);

  std::filesystem::path output_;
  FileCounts counts_;
  std::vector<std::string> empty_folders_;
  std::vector<std::string> linked_folders_;     // the first ones
  std::string first_tar_;                       // the first tar archive in a folder
  std::vector<std::string> member_extensions_;  // the first ones
};

}  // namespace fovea::pipeline
