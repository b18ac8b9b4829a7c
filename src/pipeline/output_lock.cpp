// OutputLock over flock(2).
#include "pipeline/output_lock.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {

OutputLock::OutputLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    io::fail_with_errno(path, "create");
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    ::close(fd_);
    if (code == EWOULDBLOCK) {
      fail("{}: another run is writing to this folder; wait for it or choose another output",
           io::escape(folder.native()));
    }
    fail("{}: cannot lock: {}", io::escape(path.native()), std::strerror(code));
  }
}

OutputLock::~OutputLock() {
  ::close(fd_);
}

}  // namespace fovea::pipeline
