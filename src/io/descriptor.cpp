// Descriptor: implemented with open(2), fstat(2) and close(2).
#include "io/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"

namespace fovea::io {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

FileStamp file_stamp(const struct stat& info) {
  // Some file systems store times whose nanoseconds overflow 64 bits.
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::int64_t kMaxSeconds = std::numeric_limits<std::int64_t>::max() / kSecond - 1;
  const auto seconds = std::clamp<std::int64_t>(info.st_mtim.tv_sec, -kMaxSeconds, kMaxSeconds);
  return {info.st_size, seconds * kSecond + info.st_mtim.tv_nsec};
}

OpenedFile open_regular_file(const std::filesystem::path& path, int folder) {
  if (path.native().find('\0') != std::string::npos) {
    fail("the name of the file contains a NUL byte");
  }
  OpenedFile opened;
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait. Regular files ignore it.
  opened.file =
      Descriptor(::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened.file.open()) {
    fail_with_errno("open");
  }
  if (::fstat(opened.file.get(), &opened.info) != 0) {
    fail_with_errno("examine");
  }
  if (S_ISDIR(opened.info.st_mode)) {
    fail("is a folder");
  }
  if (!S_ISREG(opened.info.st_mode)) {
    fail("not a regular file");
  }
  return opened;
}

}  // namespace fovea::io
