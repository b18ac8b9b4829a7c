// PartialFile: a file that several runs write under a temporary name, renamed once it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/folder.hpp"

namespace fovea::io {

/// A file that is written as `name` + ".partial". Unlike AtomicFile's, that file outlives the
/// process, so that a later one can resume from a length known to be valid. Anything in its place
/// that is not an ordinary file is refused (see Folder::open_to_write). Every failed
/// system call (a full disk included) throws fovea::Error with the path and the system's reason.
class PartialFile {
 public:
  /// Opens the file of an earlier run, keeps its first `valid_bytes` bytes and drops the rest;
  /// creates the file when `valid_bytes` is 0. A file already committed under its final name is
  /// renamed back. Throws when there are fewer than `valid_bytes` bytes.
  PartialFile(std::shared_ptr<const Folder> folder, std::string name, std::uint64_t valid_bytes);

  /// Returns the name of an earlier run's file: the ".partial" file, or its final name.
  [[nodiscard]] static std::string left_as(const Folder& folder, const std::string& name);

  [[nodiscard]] std::uint64_t size() const { return size_; }

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Overwrites written bytes from byte `offset` on, such as a header that is completed last.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Calls fdatasync(2), so that all written data survives a power failure.
  void sync();

  /// Calls sync(), then renames the file to its final name. The caller syncs the folder.
  void commit();

 private:
  [[nodiscard]] std::filesystem::path path_for_messages() const { return *folder_ / partial_; }

  std::shared_ptr<const Folder> folder_;
  std::string name_;
  std::string partial_;
  std::uint64_t size_ = 0;
  bool synced_ = false;
  Descriptor file_;
};

}  // namespace fovea::io
