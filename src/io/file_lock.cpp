// FileLock: implemented with flock(2), whose locks the kernel releases when the process ends.
#include "io/file_lock.hpp"

#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/file.h>

#include "io/system_error.hpp"
#include "io/text.hpp"

namespace fovea::io {
namespace {

constexpr std::chrono::milliseconds kRetryInterval{50};

struct MissingLockHandler {
  std::mutex mutex;
  std::function<void(const std::string&)> warn;
};

MissingLockHandler& missing_lock_handler() {
  static MissingLockHandler shared;
  return shared;
}

void warn_once(const std::filesystem::path& path) {
  const std::lock_guard lock(missing_lock_handler().mutex);
  if (const auto warn = std::exchange(missing_lock_handler().warn, nullptr)) {
    warn(
        fmt::format("{}: this file system does not support locks, so nothing prevents a second "
                    "run from writing here at the same time",
                    escape((path.has_parent_path() ? path.parent_path() : ".").native())));
  }
}

// Whether the error code means that the file system does not support locks (Lustre without
// -o flock, some NFS and FUSE mounts).
bool is_unsupported(int code) {
  return code == ENOSYS || code == ENOTSUP || code == EINVAL || code == ENOLCK;
}

}  // namespace

void on_missing_locks(std::function<void(const std::string& sentence)> warn) {
  const std::lock_guard lock(missing_lock_handler().mutex);
  missing_lock_handler().warn = std::move(warn);
}

bool try_lock(const Descriptor& file, Sharing sharing, const std::filesystem::path& path) {
  const int operation = (sharing == Sharing::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  int result = 0;
  do {
    result = ::flock(file.get(), operation);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    return true;
  }
  if (errno == EWOULDBLOCK) {
    return false;
  }
  if (!is_unsupported(errno)) {
    fail_with_errno(path, "lock");
  }
  warn_once(path);
  return true;
}

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& busy)
    : FileLock(Folder(path.parent_path()), path.filename().native(), busy) {}

FileLock::FileLock(const Folder& folder, const std::string& name,
                   const std::function<void()>& busy) {
  // A lock on a file that was removed after open() does not exclude other processes: try again.
  do {
    file_ = folder.open_to_write(name, true);
    while (!try_lock(file_, Sharing::kExclusive, folder / name)) {
      busy();
      std::this_thread::sleep_for(kRetryInterval);
    }
  } while (!folder.names(name, file_));
}

}  // namespace fovea::io
