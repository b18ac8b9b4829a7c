// FileLock over flock(2): released by the kernel when the process ends, however it ends.
#include "io/file_lock.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "io/system_error.hpp"

namespace fovea::io {

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& busy)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (fd_ < 0) {
    fail_with_errno(path, "create");
  }
  try {
    int result = ::flock(fd_, LOCK_EX | LOCK_NB);
    if (result != 0 && errno == EWOULDBLOCK) {
      busy();
      do {
        result = ::flock(fd_, LOCK_EX);
      } while (result != 0 && errno == EINTR);
    }
    if (result != 0) {
      fail_with_errno(path, "lock");
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace fovea::io
