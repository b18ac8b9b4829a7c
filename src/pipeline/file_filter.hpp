// FileFilter: decides which files below a folder, or members of an archive, are read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/job.hpp"

namespace fovea::pipeline {

/// A pattern of --exclude or --include, as fovea::InputOptions describes them.
class GlobPattern {
 public:
  explicit GlobPattern(std::string_view text);

  /// `path`: relative to the input folder, without a leading "./".
  [[nodiscard]] bool matches(std::string_view path, bool is_folder) const;

 private:
  std::vector<std::string> parts_;  // split at slashes; "**" matches any number of folders
  bool folders_only_ = false;
};

class FileFilter {
 public:
  /// Accepts all files except those that operating systems create, such as thumbnail databases.
  FileFilter() = default;
  /// Throws fovea::Error for an invalid pattern.
  explicit FileFilter(const InputOptions& options);

  /// The decision on a folder, which applies to everything in it.
  struct Verdict {
    std::string_view left_out;  // the kind under which it is counted; empty when it is read
    bool included = true;       // whether it satisfies --include
  };

  /// Returns the verdict on the input folder or archive itself.
  [[nodiscard]] Verdict top() const {
    return {.left_out = "", .included = include_patterns_.empty()};
  }

  /// Returns the verdict on the folder `path`. `parent`: the verdict on the folder that contains
  /// it.
  [[nodiscard]] Verdict folder(const Verdict& parent, std::string_view path) const;

  /// Returns the kind under which a file is counted as left out, or "" for an input.
  /// `has_input_extension`: whether its extension makes it an input.
  [[nodiscard]] std::string_view file(const Verdict& parent, std::string_view path,
                                      bool has_input_extension) const;

  /// Returns the kind of a member of an archive in the same way as file() does.
  [[nodiscard]] std::string_view member(std::string_view path, bool has_input_extension) const;

 private:
  bool reads_hidden_ = true;
  std::vector<GlobPattern> exclude_patterns_;
  std::vector<GlobPattern> include_patterns_;
};

}  // namespace fovea::pipeline
