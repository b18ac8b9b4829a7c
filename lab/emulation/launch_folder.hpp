// Files that a launch file names: strangers write launch files, so they are below its folder alone.
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
  /// `any_path`: whether it may also name files elsewhere.
  LaunchFolder(std::filesystem::path folder, bool any_path)
      : folder_(std::move(folder)), any_path_(any_path) {}

  /// Throws fovea::Error for a name that leads out of the folder by what it says.
  void require_inside(const std::string& name) const;
  /// Both throw it for a name that leads out of the folder, also through a link.
  [[nodiscard]] io::File open(const std::string& name) const;
  /// The folder in which a file is to be written, and its name there.
  [[nodiscard]] std::pair<std::shared_ptr<const io::Folder>, std::string> place_of(
      const std::string& name) const;

  /// A file that must not be written to: open() notes what it opens.
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
