// AtomicFile: a file that appears whole or not at all.
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

/// Writes beside its final name (the name + ".partial"), then commit() syncs and renames it into
/// place. Destroyed without commit(), it removes what it wrote. A second writer of the same file,
/// in this process or another, is refused while the first lives; so is anything in the place of the
/// ".partial" file that is not an ordinary file (see Folder::open_to_write). Every failed system
/// call (a full disk included) throws fovea::Error with the path and the system's reason.
///
/// A path is followed through links, and a pipe or a device is never replaced: commit() copies to
/// it what was written (see output_place.hpp). Within a Folder, a link is replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(std::shared_ptr<const Folder> folder, std::string name);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Overwrites written bytes from byte `offset` on, such as a header that is completed last.
  void write_at(std::size_t offset, std::span<const std::byte> bytes);

  /// Removes the file that commit() would replace, if there is one.
  void remove_old() const;

  /// Syncs the file, renames it to its path, and syncs the folder. To be called once.
  void commit();

 private:
  explicit AtomicFile(OutputPlace place);
  [[nodiscard]] std::filesystem::path shown() const;
  void open_partial();
  void copy_to_place() const;

  OutputPlace place_;                     // of a path
  std::shared_ptr<const Folder> folder_;  // null where the place is direct
  std::string name_;
  std::string partial_;
  Descriptor file_;
};

/// Writes the whole content at once.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
void write_file_atomically(const std::shared_ptr<const Folder>& folder, const std::string& name,
                           std::string_view content);

}  // namespace fovea::io
