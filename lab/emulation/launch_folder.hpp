// Files that a launch file names. Launch files may be untrusted, so by default they only access
// files below their own folder.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <sys/stat.h>

#include "io/file.hpp"
#include "io/folder.hpp"

namespace fovea::emulation {

class LaunchFolder {
 public:
  /// If `any_path`, files outside the folder are allowed.
  LaunchFolder(std::filesystem::path folder, bool any_path)
      : folder_(std::move(folder)), any_path_(any_path) {}

  /// Throws fovea::Error if the name itself leads out of the folder.
  void require_inside(const std::string& name) const;
  /// Opens a file. Throws fovea::Error if the name leads out of the folder, even through a link.
  [[nodiscard]] io::File open(const std::string& name) const;
  /// Returns the folder in which a file is to be written, and its name there. Throws as open()
  /// does.
  [[nodiscard]] std::pair<std::shared_ptr<const io::Folder>, std::string> place_of(
      const std::string& name) const;

  /// Marks a file that must not be overwritten, as open() does for each file that it opens.
  void keep(const struct stat& file) const { kept_->emplace(file.st_dev, file.st_ino); }
  [[nodiscard]] bool keeps(const struct stat& file) const {
    return kept_->contains({file.st_dev, file.st_ino});
  }

 private:
  std::filesystem::path folder_;
  bool any_path_;
  std::shared_ptr<std::set<std::pair<dev_t, ino_t>>> kept_ =
      std::make_shared<std::set<std::pair<dev_t, ino_t>>>();
};

}  // namespace fovea::emulation
