// Locks on files by flock(2), and FileLock, which excludes other processes by a lock file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "io/folder.hpp"

namespace fovea::io {

enum class Sharing : std::uint8_t { kExclusive, kShared };

/// Locks an open file until it is closed. False when another process holds the lock. Some network
/// file systems have no locks: on these it returns true, and the user is warned once that a second
/// run is not prevented. Throws fovea::Error naming `path` when the lock fails for another reason.
[[nodiscard]] bool try_lock(const Descriptor& file, Sharing sharing,
                            const std::filesystem::path& path);

/// Sets the function that is called, once per process, with a warning for the user when a file
/// system does not support locks. By default there is no warning.
void on_missing_locks(std::function<void(const std::string& sentence)> warn);

/// An exclusive lock, held for the life of the object. The kernel releases it when the process
/// ends. The lock file is not removed.
class FileLock {
 public:
  /// Creates the file; while another process holds the lock, calls `busy` every 50 ms, and waits
  /// until `busy` throws. Throws fovea::Error naming the path, also when the name is that of
  /// something other than an ordinary file (see Folder::open_to_write).
  FileLock(const std::filesystem::path& path, const std::function<void()>& busy);
  FileLock(const Folder& folder, const std::string& name, const std::function<void()>& busy);

  /// The file, for reading and writing.
  [[nodiscard]] const Descriptor& file() const { return file_; }

 private:
  Descriptor file_;
};

}  // namespace fovea::io
