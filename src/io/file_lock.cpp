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

constexpr std::chrono::milliseconds kBetweenAttempts{50};

struct Telling {
  std::mutex mutex;
  std::function<void(const std::string&)> tell;
};

Telling& telling() {
  static Telling shared;
  return shared;
}

void tell_once(const std::filesystem::path& path) {
  const std::lock_guard lock(telling().mutex);
  if (const auto tell = std::exchange(telling().tell, nullptr)) {
    tell(
        fmt::format("{}: this file system has no locks, so nothing keeps a second run from "
                    "writing here at the same time",
                    escape((path.has_parent_path() ? path.parent_path() : ".").native())));
  }
}

// Whether the error code means that the file system does not support locks (Lustre without
// -o flock, some NFS and FUSE mounts).
bool means_no_locks(int code) {
  return code == ENOSYS || code == ENOTSUP || code == EINVAL || code == ENOLCK;
}

}  // namespace

void on_missing_locks(std::function<void(const std::string& sentence)> tell) {
  const std::lock_guard lock(telling().mutex);
  telling().tell = std::move(tell);
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
  if (!means_no_locks(errno)) {
    fail_with_errno(path, "lock");
  }
  tell_once(path);
  return true;
}

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& busy)
    : FileLock(Folder(path.parent_path()), path.filename().native(), busy) {}

FileLock::FileLock(const Folder& folder, const std::string& name,
                   const std::function<void()>& busy) {
  // A file that was removed between open() and the lock excludes no other process: try again.
  do {
    file_ = folder.open_to_write(name, true);
    while (!try_lock(file_, Sharing::kExclusive, folder / name)) {
      busy();
      std::this_thread::sleep_for(kBetweenAttempts);
    }
  } while (!folder.names(name, file_));
}

}  // namespace fovea::io
