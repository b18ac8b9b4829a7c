// File: implemented with pread(2).
#include "io/file.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"

namespace fovea::io {
File::File(OpenedFile opened, std::filesystem::path path)
    : path_(std::move(path)),
      file_(std::move(opened.file)),
      version_{.bytes = static_cast<std::uint64_t>(opened.info.st_size),
               .seconds = opened.info.st_mtim.tv_sec,
               .nanoseconds = opened.info.st_mtim.tv_nsec} {}

File::File(const std::filesystem::path& path)
    : File(with_path(path, [&] { return open_regular_file(path); }), path) {}

File::File(const std::filesystem::path& path, const Version& expected) : File(path) {
  if (version_ != expected) {
    fail(
        "{}: changed while it was read ({} bytes now, {} before); run again when nothing "
        "writes to it",
        escape(path_.native()), version_.bytes, expected.bytes);
  }
}

std::size_t File::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t total = 0;
  while (total < out.size()) {
    const ssize_t count = ::pread(file_.get(), out.data() + total, out.size() - total,
                                  static_cast<off_t>(offset + total));
    if (count == 0) {
      break;
    }
    if (count > 0) {
      total += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      fail_with_errno(path_, fmt::format("read {} bytes at byte {}", out.size(), offset));
    }
  }
  return total;
}

void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (read_some(offset, out) == out.size()) {
    return;
  }
  struct stat info{};
  if (::fstat(file_.get(), &info) != 0) {
    fail_with_errno(path_, "examine");
  }
  fail(
      "{}: shrank to {} bytes while it was read (it had {}); restore it, and run again when "
      "nothing writes to it",
      escape(path_.native()), info.st_size, version_.bytes);
}

bool exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() != std::filesystem::file_type::not_found;
}

std::string read_small_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const File file(path);
  // The reported size may be wrong: it is 0 for files of /proc, and other files may grow.
  std::string text;
  std::size_t total = 0;
  std::size_t capacity = std::min<std::uint64_t>(file.size(), max_bytes) + 1;
  for (; total == text.size() && total <= max_bytes; capacity = 2 * capacity + 4096) {
    text.resize(std::min(capacity, max_bytes + 1));
    total += file.read_some(total, std::as_writable_bytes(std::span(text).subspan(total)));
  }
  if (total > max_bytes) {
    fail("{}: the file is too large: {} bytes (at most {})", escape(path.native()),
         std::max<std::uint64_t>(file.size(), total), max_bytes);
  }
  text.resize(total);
  return text;
}

}  // namespace fovea::io
