// FileLock: one process at a time, by flock(2) on a file of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "io/folder.hpp"

namespace fovea::io {

/// Held while the object lives. The kernel frees it when the process ends, however that happens.
/// The file stays.
class FileLock {
 public:
  /// Creates the file; while another process holds the lock, calls `busy` every 50 ms, and waits
  /// until `busy` throws. Throws fovea::Error naming the path, also when its place holds something
  /// that is not an ordinary file (see Folder::open_to_write).
  FileLock(const std::filesystem::path& path, const std::function<void()>& busy);
  FileLock(const Folder& folder, const std::string& name, const std::function<void()>& busy);

  /// The file, for reading and writing.
  [[nodiscard]] const Descriptor& file() const { return file_; }

 private:
  Descriptor file_;
};

}  // namespace fovea::io
