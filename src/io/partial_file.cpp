// PartialFile over write(2), ftruncate(2), fdatasync(2), rename(2).
#include "io/partial_file.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::io {
PartialFile::PartialFile(std::filesystem::path path, std::uint64_t keep)
    : path_(std::move(path)), partial_(path_), size_(keep) {
  partial_ += ".partial";
  // Killed between the rename and the record of it: the finished file is the partial one.
  if (keep > 0 && ::access(partial_.c_str(), F_OK) != 0 && ::access(path_.c_str(), F_OK) == 0 &&
      ::rename(path_.c_str(), partial_.c_str()) != 0) {
    fail_with_errno(path_, "take the file back to go on with it");
  }
  const int create = keep == 0 ? O_CREAT | O_TRUNC : 0;
  fd_ = ::open(partial_.c_str(), O_WRONLY | O_CLOEXEC | create, 0666);
  if (fd_ < 0) {
    fail_with_errno(partial_, keep == 0 ? "create" : "open to go on with it");
  }
  struct stat info{};
  if (::fstat(fd_, &info) != 0) {
    fail_with_errno(partial_, "examine");
  }
  if (static_cast<std::uint64_t>(info.st_size) < keep) {
    ::close(std::exchange(fd_, -1));
    fail("{}: holds {} bytes where an earlier run left at least {}", escape(partial_.native()),
         info.st_size, keep);
  }
  if (::ftruncate(fd_, static_cast<off_t>(keep)) != 0) {
    const int code = errno;
    ::close(std::exchange(fd_, -1));
    errno = code;
    fail_with_errno(partial_, "truncate");
  }
}

PartialFile::~PartialFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void PartialFile::write(std::span<const std::byte> bytes) {
  write_all_at(fd_, bytes, size_, partial_);
  size_ += bytes.size();
}

void PartialFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void PartialFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  write_all_at(fd_, bytes, offset, partial_);
}

void PartialFile::sync() {
  if (::fdatasync(fd_) != 0) {
    fail_with_errno(partial_, "sync");
  }
}

void PartialFile::commit() {
  if (::fsync(fd_) != 0) {
    fail_with_errno(partial_, "sync");
  }
  if (::close(std::exchange(fd_, -1)) != 0 || ::rename(partial_.c_str(), path_.c_str()) != 0) {
    fail_with_errno(path_, "put the finished file in place");
  }
}

}  // namespace fovea::io
