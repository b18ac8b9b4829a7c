// FileLock: one process at a time, by flock(2) on a file of its own.
#pragma once

#include <filesystem>
#include <functional>

namespace fovea::io {

/// Held while the object lives; the kernel frees it with the process, however that ends. The file
/// stays.
class FileLock {
 public:
  /// Creates `path`; calls `busy` once when another process holds the lock, then waits for it
  /// unless `busy` throws. Throws fovea::Error naming the path.
  FileLock(const std::filesystem::path& path, const std::function<void()>& busy);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace fovea::io
