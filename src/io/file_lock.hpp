// Locks of files by flock(2), and FileLock: one process at a time, by a file of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "io/folder.hpp"

namespace fovea::io {

enum class Sharing : std::uint8_t { kExclusive, kShared };

/// Locks an open file until it is closed. False when another process holds the lock. Some network
/// file systems have no locks: there it is true, and the user is told once that nothing keeps a
/// second run out. Throws fovea::Error naming `path` when the lock fails for another reason.
[[nodiscard]] bool try_lock(const Descriptor& file, Sharing sharing,
                            const std::filesystem::path& path);

/// What is called, once per process, with a sentence for the user, when a file cannot be locked.
/// Without it, nobody is told.
void on_missing_locks(std::function<void(const std::string& sentence)> tell);

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
