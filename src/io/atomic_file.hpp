// AtomicFile: a file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace fovea::io {

/// Writes beside `path` (`path` + ".partial"), then commit() syncs and renames it into place.
/// Destroyed without commit(), it removes what it wrote. A second writer of the same path, in this
/// process or another, is refused while the first lives. Every failed system call (a full disk
/// included) throws fovea::Error with the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Overwrites bytes already written, from byte `offset` on (for headers known last).
  void write_at(std::size_t offset, std::span<const std::byte> bytes);

  /// Removes the file that commit() would replace, if there is one.
  void remove_old() const;

  /// fsync the file, rename it to its path, fsync the directory. Call once.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  int fd_ = -1;
};

/// The whole content in one go.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace fovea::io
