// read_file over open(2) and read(2).
#include "pipeline/read_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"

namespace fovea::pipeline {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void read_file(const std::string& path, std::vector<std::byte>& bytes) {
  if (path.find('\0') != std::string::npos) {
    fail("a name of a file cannot hold a NUL byte");
  }
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    fail("cannot open: {}", std::strerror(errno));
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) {
    fail("cannot examine: {}", std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    fail("is a folder");
  }
  if (!S_ISREG(info.st_mode)) {
    fail("not a regular file");
  }
  const auto too_large = [](std::uint64_t size) {
    if (size > kMaxEncodedBytes) {
      fail("holds more than {} bytes: too large for an image", kMaxEncodedBytes);
    }
  };
  too_large(static_cast<std::uint64_t>(info.st_size));
  // One byte more than expected, so that the end is seen without another round of growing.
  bytes.resize(static_cast<std::size_t>(info.st_size) + 1);
  std::size_t have = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail("cannot read: {}", std::strerror(errno));
    }
    have += static_cast<std::size_t>(got);
    if (got == 0) {
      break;
    }
    too_large(have);
    if (have == bytes.size()) {
      bytes.resize(have + std::max<std::size_t>(have / 2, 4096));
    }
  }
  bytes.resize(have);
  if (have == 0) {
    fail("the file is empty");
  }
}

}  // namespace fovea::pipeline
