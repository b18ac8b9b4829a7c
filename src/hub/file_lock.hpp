// FileLock: one process at a time, by flock(2) on a file of its own.
#pragma once

#include <filesystem>
#include <functional>

namespace fovea::hub {

/// Held while the object lives. The file stays; huggingface_hub locks the same ones.
class FileLock {
 public:
  /// Creates `path` and its folders; calls `waiting` once when another process holds the lock,
  /// then waits for it. Throws fovea::Error naming the path.
  FileLock(const std::filesystem::path& path, const std::function<void()>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace fovea::hub
