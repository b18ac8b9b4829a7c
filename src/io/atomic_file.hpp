// AtomicFile: a file that appears completely or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/folder.hpp"
#include "io/output_place.hpp"

namespace fovea::io {

/// Writes a temporary file in the same folder (the final name + ".partial"); commit() syncs it and
/// renames it into place. Without commit(), the destructor removes it. The constructor throws while
/// another writer of the same file exists, in this process or another, and when something other
/// than an ordinary file has the name of the temporary file (see Folder::open_to_write). Every
/// failed system call (a full disk included) throws fovea::Error with the path and the system's
/// reason.
///
/// The constructor that takes a path follows links, and never replaces a pipe or a device:
/// commit() copies the content to it (see output_place.hpp). The constructor that takes a Folder
/// replaces a link.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(std::shared_ptr<const Folder> folder, std::string name);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Overwrites earlier bytes from `offset` on, such as those of a header that is completed last.
  void write_at(std::size_t offset, std::span<const std::byte> bytes);

  /// Removes the file that commit() would replace, if there is one.
  void remove_old() const;

  /// Syncs the file, renames it to its path, and syncs the folder. To be called once.
  void commit();

 private:
  explicit AtomicFile(OutputPlace place);
  [[nodiscard]] std::filesystem::path path_for_messages() const;
  void open_partial();
  void copy_to_place() const;

  OutputPlace place_;                     // unused in a Folder
  std::shared_ptr<const Folder> folder_;  // null when the place is direct
  std::string name_;
  std::string partial_;
  Descriptor file_;
};

/// Writes a file with this content through an AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
void write_file_atomically(const std::shared_ptr<const Folder>& folder, const std::string& name,
                           std::string_view content);

}  // namespace fovea::io
