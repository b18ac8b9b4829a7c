// Descriptor: a file descriptor that is closed on destruction. Also opens files for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

namespace fovea::io {

/// Owns a file descriptor, or none (-1). Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

/// The size and modification time of a file, by which index files detect changes. A copy that keeps
/// the modification time has the same stamp.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // nanoseconds since 1970, UTC

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
[[nodiscard]] FileStamp file_stamp(const struct stat& info);

/// A regular file opened for reading, and its fstat(2) data.
struct OpenedFile {
  Descriptor file;
  struct stat info{};
};

/// Opens `path` for reading, whatever it names, without ever waiting for the other end of a pipe or
/// device. Throws fovea::Error, without the name, when it cannot be opened, is a folder or is not a
/// regular file; ResourceError when the process or the machine has no descriptor or memory left.
/// A relative path is looked up in the open folder `folder`; by default, in the working directory.
[[nodiscard]] OpenedFile open_regular_file(const std::filesystem::path& path,
                                           int folder = AT_FDCWD);

}  // namespace fovea::io
