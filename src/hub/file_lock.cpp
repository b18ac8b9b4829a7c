// FileLock over flock(2): released by the kernel when the process ends, however it ends.
#include "hub/file_lock.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::hub {

FileLock::FileLock(const std::filesystem::path& path, const std::function<void()>& waiting) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail("{}: cannot create the lock file: {}", io::escape(path.native()), std::strerror(errno));
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    return;
  }
  int result = -1;
  if (errno == EWOULDBLOCK) {
    waiting();
    do {
      result = ::flock(fd_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
  }
  if (result != 0) {
    const int code = errno;
    ::close(fd_);
    fail("{}: cannot lock: {}", io::escape(path.native()), std::strerror(code));
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace fovea::hub
