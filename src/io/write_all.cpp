// Loops over write(2) and pwrite(2), which may write less than they were given; fsync(2).
#include "io/write_all.hpp"

#include <cerrno>

#include <unistd.h>

#include "io/system_error.hpp"

namespace fovea::io {
namespace {

template <typename Write>
void write_fully(const Write& write, std::span<const std::byte> bytes,
                 const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(bytes);
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail_with_errno(path, "write");
    }
  }
}

}  // namespace

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  write_fully(
      [&](std::span<const std::byte> remaining) {
        return ::write(fd, remaining.data(), remaining.size());
      },
      bytes, path);
}

void write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                  const std::filesystem::path& path) {
  write_fully(
      [&](std::span<const std::byte> remaining) {
        const std::uint64_t position = offset + (bytes.size() - remaining.size());
        return ::pwrite(fd, remaining.data(), remaining.size(), static_cast<off_t>(position));
      },
      bytes, path);
}

bool is_synced(int result) {
  return result == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS;
}

void sync_file(const Descriptor& file, const std::filesystem::path& path) {
  if (!is_synced(::fsync(file.get()))) {
    fail_with_errno(path, "sync");
  }
}

}  // namespace fovea::io
