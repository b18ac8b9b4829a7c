// Folder: an open folder, whose files are accessed relative to its descriptor.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "io/descriptor.hpp"

namespace fovea::io {

/// An open folder, which does not change when its path later leads to another folder. Names are
/// those of its files and subfolders, without a slash. Every failed system call throws fovea::Error
/// with the path and the reason.
class Folder {
 public:
  /// Opens an existing folder; "" is the working directory.
  explicit Folder(std::filesystem::path path);

  /// Creates the folder and its parents if they do not exist, and opens it.
  [[nodiscard]] static std::shared_ptr<const Folder> make(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Returns the path of a file in it, for messages.
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const;

  /// Opens a file for writing, and creates it if it does not exist and `create` is true. Throws
  /// fovea::Error, without changing anything, when the name is that of a link, a file with several
  /// hard links, a pipe, a device or a folder.
  [[nodiscard]] Descriptor open_to_write(const std::string& name, bool create) const;
  /// Opens a regular file for reading, and follows a link to it. See open_regular_file.
  [[nodiscard]] OpenedFile open_to_read(const std::string& name) const;

  /// Opens a subfolder, and creates it if it does not exist. A link in its place is refused.
  [[nodiscard]] std::shared_ptr<const Folder> make_folder(const std::string& name) const;
  /// Opens a subfolder; returns null if it does not exist. A link in its place is refused.
  [[nodiscard]] std::shared_ptr<const Folder> open_folder(const std::string& name) const;
  /// Removes a subfolder with its content, if it exists. Links are removed, and not followed.
  void remove_folder(const std::string& name) const;

  /// Whether an entry of that name exists, such as a file or a dangling link.
  [[nodiscard]] bool has(const std::string& name) const;
  /// Returns the result of fstatat(2), which follows links unless `flags` say otherwise; nothing
  /// when there is no such file.
  [[nodiscard]] std::optional<struct stat> examine(const std::string& name, int flags = 0) const;
  /// Whether `name` is the open file `file` itself, and not a link to it.
  [[nodiscard]] bool names(const std::string& name, const Descriptor& file) const;
  [[nodiscard]] std::vector<std::string> list() const;

  void rename(const std::string& from, const std::string& to) const;
  /// Moves a file from this folder to `other`, where it replaces one of the same name.
  void move_to(const Folder& other, const std::string& name) const;
  /// Removes a file or a link, if it exists.
  void remove(const std::string& name) const;
  /// Calls fsync(2) on the folder, so that renames and removals survive a power failure.
  void sync() const;

  /// Whether the path still leads to this folder.
  [[nodiscard]] bool is_in_place() const;

 private:
  Folder(std::filesystem::path path, Descriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::filesystem::path path_;
  Descriptor folder_;
};

}  // namespace fovea::io
