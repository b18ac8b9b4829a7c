// FileLock over flock(2): released by the kernel when the process ends, however it ends.
#include "io/file_lock.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

#include <sys/file.h>

#include "io/system_error.hpp"

namespace fovea::io {
namespace {

constexpr std::chrono::milliseconds kBetweenAttempts{50};

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& busy)
    : FileLock(Folder(path.parent_path()), path.filename().native(), busy) {}

FileLock::FileLock(const Folder& folder, const std::string& name,
                   const std::function<void()>& busy) {
  // A file that was removed between our open and our lock would exclude nobody else: try again.
  do {
    file_ = folder.open_to_write(name, true);
    int result = ::flock(file_.get(), LOCK_EX | LOCK_NB);
    while (result != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
      busy();
      std::this_thread::sleep_for(kBetweenAttempts);
      result = ::flock(file_.get(), LOCK_EX | LOCK_NB);
    }
    if (result != 0) {
      fail_with_errno(folder / name, "lock");
    }
  } while (!folder.names(name, file_));
}

}  // namespace fovea::io
