// AtomicFile over write(2), fsync(2), rename(2).
#include "io/atomic_file.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::io {

namespace {

// Whether `fd` is still the file that `path` names.
bool is_at(int fd, const std::filesystem::path& path) {
  struct stat open_file{};
  struct stat named{};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  partial_ += ".partial";
  // The lock goes with the process, so that a killed writer's leavings are taken over. A writer
  // that renames its file between our open and our lock leaves us with the wrong one: once more.
  do {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      fail_with_errno(partial_, "create");
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int code = errno;
      ::close(fd_);
      if (code == EWOULDBLOCK) {
        fail("{}: another run is writing this file; wait for it or choose another output",
             escape(path_.native()));
      }
      errno = code;
      fail_with_errno(partial_, "lock");
    }
  } while (!is_at(fd_, partial_));
  if (::ftruncate(fd_, 0) != 0) {
    const int code = errno;
    ::close(fd_);
    errno = code;
    fail_with_errno(partial_, "empty");
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::unlink(partial_.c_str());  // while the lock is held: it is ours
    ::close(fd_);
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(fd_, bytes, partial_);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  write_all_at(fd_, bytes, offset, partial_);
}

void AtomicFile::remove_old() const {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    fail_with_errno(path_, "remove");
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) {
    fail_with_errno(partial_, "sync");
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    fail_with_errno(path_, "put the finished file in place");
  }
  ::close(std::exchange(fd_, -1));  // synced above, and it holds the lock until the rename
  sync_directory(path_.parent_path());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace fovea::io
