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
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = ::pread(file_.get(), out.data() + have, out.size() - have,
                                static_cast<off_t>(offset + have));
    if (got == 0) {
      break;
    }
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      fail_with_errno(path_, fmt::format("read {} bytes at byte {}", out.size(), offset));
    }
  }
  return have;
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
  // The size may be wrong: files of /proc have a size of 0, and others grow.
  std::string text;
  std::size_t have = 0;
  std::size_t room = std::min<std::uint64_t>(file.size(), max_bytes) + 1;
  for (; have == text.size() && have <= max_bytes; room = 2 * room + 4096) {
    text.resize(std::min(room, max_bytes + 1));
    have += file.read_some(have, std::as_writable_bytes(std::span(text).subspan(have)));
  }
  if (have > max_bytes) {
    fail("{}: {} bytes are too many for this file (at most {})", escape(path.native()),
         std::max<std::uint64_t>(file.size(), have), max_bytes);
  }
  text.resize(have);
  return text;
}

}  // namespace fovea::io
