// Follows links by hand, because the last one may lead to a file that is not there yet.
#include "io/output_place.hpp"

#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"

namespace fovea::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as Linux follows

std::optional<struct stat> stat_of(const fs::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    return info;
  }
  return std::nullopt;
}

bool is_open_as(int fd, const struct stat& info) {
  struct stat opened{};
  return ::fstat(fd, &opened) == 0 && opened.st_dev == info.st_dev && opened.st_ino == info.st_ino;
}

// The standard stream that already writes to this file, or -1.
int standard_stream(const struct stat& info) {
  return is_open_as(STDOUT_FILENO, info)   ? STDOUT_FILENO
         : is_open_as(STDERR_FILENO, info) ? STDERR_FILENO
                                           : -1;
}

// The names in /proc/<process>/fd are links that can be opened, but whose text need not be a path.
bool is_open_file(const fs::path& path) {
  std::error_code ignored;
  return fs::canonical(path.has_parent_path() ? path.parent_path() : ".", ignored)
      .native()
      .starts_with("/proc/");
}

/// The open file that a path stands for, or -1: a standard stream, or what /dev/fd names.
int stream_of(const fs::path& path, const struct stat& there) {
  if (const int standard = standard_stream(there); standard >= 0) {
    return standard;
  }
  const std::string name = path.filename().native();
  int fd = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && is_open_file(path) && is_open_as(fd, there) ? fd : -1;
}

}  // namespace

OutputPlace output_place(const fs::path& path) {
  OutputPlace place{.path = path, .is_direct = false, .there = stat_of(path)};
  if (place.there && S_ISDIR(place.there->st_mode)) {
    fail("{}: is a folder; the output needs the name of a file", escape(path.native()));
  }
  place.is_direct = place.there && (!S_ISREG(place.there->st_mode) ||
                                    standard_stream(*place.there) >= 0 || is_open_file(path));
  std::error_code no_link;
  for (int links = 0; !place.is_direct; ++links) {
    const fs::path target = fs::read_symlink(place.path, no_link);
    if (no_link) {
      break;
    }
    if (links == kMostLinks) {
      fail("{}: leads through too many links", escape(path.native()));
    }
    place.path = place.path.parent_path() / target;  // an absolute target stands alone
    if (place.there && is_open_file(place.path)) {
      place.path = path;
      place.is_direct = true;
    }
  }
  return place;
}

Descriptor open_directly(const OutputPlace& place) {
  // Opened anew, a file would be written from its beginning, over what the stream has written.
  const int stream = place.there ? stream_of(place.path, *place.there) : -1;
  Descriptor file;
  do {  // a pipe waits here for its reader
    file = Descriptor(stream >= 0
                          ? ::fcntl(stream, F_DUPFD_CLOEXEC, 0)
                          : ::open(place.path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC));
  } while (!file.open() && errno == EINTR);
  if (!file.open()) {
    fail_with_errno(place.path, "open for writing");
  }
  return file;
}

void check_writable(const fs::path& path) {
  const OutputPlace place = output_place(path);
  if (!place.is_direct) {
    const AtomicFile tried(place.path);
  } else if (::access(place.path.c_str(), W_OK) != 0) {
    fail_with_errno(place.path, "open for writing");
  }
}

}  // namespace fovea::io
