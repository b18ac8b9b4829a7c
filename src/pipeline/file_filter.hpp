// FileFilter: which files below a folder, or members of an archive, are to be read.
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

  /// `path`: relative to the folder that was given, without "./".
  [[nodiscard]] bool matches(std::string_view path, bool is_folder) const;

 private:
  std::vector<std::string> parts_;  // between slashes; "**" stands for any number of folders
  bool folders_only_ = false;
};

class FileFilter {
 public:
  /// Passes all files except those that systems keep beside users' files, such as thumbnails.
  FileFilter() = default;
  /// Throws fovea::Error for an invalid pattern.
  explicit FileFilter(const InputOptions& options);

  /// The decision on a folder, which applies to everything in it.
  struct Verdict {
    std::string_view left_out;  // the kind as which it is counted; empty when it is read
    bool included = true;       // no pattern of --include is missing
  };

  /// Verdict on the folder or archive that was given.
  [[nodiscard]] Verdict top() const { return {.left_out = "", .included = include_.empty()}; }

  /// Verdict on the folder `path`, in a folder with the verdict `around`.
  [[nodiscard]] Verdict folder(const Verdict& around, std::string_view path) const;

  /// Returns the kind under which a file is counted as left out, or "" for an input. `wanted`:
  /// whether it is an input by its extension.
  [[nodiscard]] std::string_view file(const Verdict& around, std::string_view path,
                                      bool wanted) const;

  /// Returns the kind of a member of an archive in the same way.
  [[nodiscard]] std::string_view member(std::string_view path, bool wanted) const;

 private:
  bool hidden_ = true;
  std::vector<GlobPattern> exclude_;
  std::vector<GlobPattern> include_;
};

}  // namespace fovea::pipeline
