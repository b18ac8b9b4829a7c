// Resolves links itself, because the last one may lead to a file that does not exist yet.
#include "io/output_place.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/atomic_file.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"

namespace fovea::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // the limit of Linux

std::atomic<const std::atomic<bool>*> wait_stop_flag = nullptr;

std::optional<struct stat> try_stat(const fs::path& path) {
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

bool is_writable(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

// Returns the standard stream that is open on this file, or -1.
int standard_stream(const struct stat& info) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (is_open_as(fd, info) && is_writable(fd)) {
      return fd;
    }
  }
  return -1;
}

// Returns the parent folder of a path with all links resolved. Callers use it to detect names in
// /proc, which are links whose targets need not be paths.
fs::path real_parent_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::canonical(path.has_parent_path() ? path.parent_path() : ".", ignored);
}

/// Returns the descriptor of this process for a name such as /proc/<process>/fd/3, or -1 for a
/// pipe or device that has to be opened again by this name.
int named_stream(const fs::path& name, const struct stat& existing) {
  const auto fd = parse_number<int>(name.filename().native());
  if (fd && is_open_as(*fd, existing)) {
    if (!is_writable(*fd)) {
      fail("{}: is open for reading only; choose another output", escape(name.native()));
    }
    return *fd;
  }
  if (S_ISREG(existing.st_mode)) {
    fail("{}: is an open file of another process; name the file itself", escape(name.native()));
  }
  return -1;
}

}  // namespace

OutputPlace output_place(const fs::path& path) {
  OutputPlace place{.path = path, .existing = try_stat(path)};
  if (place.existing && S_ISDIR(place.existing->st_mode)) {
    fail("{}: is a folder; expected the name of a file", escape(path.native()));
  }
  place.stream = place.existing ? standard_stream(*place.existing) : -1;
  place.is_direct = place.existing && (!S_ISREG(place.existing->st_mode) || place.stream >= 0);
  fs::path name = path;
  std::error_code error;
  for (int links = 0; place.stream < 0; ++links) {
    const fs::path folder = real_parent_folder(name);
    if (place.existing && folder.native().starts_with("/proc/")) {
      place.stream = folder.filename() == "fd" ? named_stream(name, *place.existing) : -1;
      place.is_direct = true;
      break;
    }
    const fs::path target = fs::read_symlink(name, error);
    if (error) {
      break;
    }
    if (links == kMaxLinks) {
      fail("{}: too many levels of symbolic links", escape(path.native()));
    }
    name = name.parent_path() / target;  // an absolute target replaces the whole path
  }
  if (!place.is_direct) {
    place.path = std::move(name);
  }
  return place;
}

void set_reader_wait_stop_flag(const std::atomic<bool>* stop) {
  wait_stop_flag = stop;
}

Descriptor open_directly(const OutputPlace& place) {
  constexpr std::chrono::milliseconds kOpenInterval{20};
  const std::atomic<bool>* const stop = wait_stop_flag;
  // Opening a pipe that has no reader is retried, so that the stop flag can be polled.
  const bool waits_for_reader =
      stop != nullptr && place.stream < 0 && place.existing && S_ISFIFO(place.existing->st_mode);
  Descriptor file;
  for (;;) {
    file = Descriptor(place.stream >= 0
                          ? ::fcntl(place.stream, F_DUPFD_CLOEXEC, 0)
                          : ::open(place.path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC |
                                                           (waits_for_reader ? O_NONBLOCK : 0)));
    if (file.open() || (errno != EINTR && (!waits_for_reader || errno != ENXIO))) {
      break;
    }
    if (waits_for_reader) {
      if (*stop) {
        throw Interrupted();
      }
      std::this_thread::sleep_for(kOpenInterval);
    }
  }
  if (!file.open() || (waits_for_reader && ::fcntl(file.get(), F_SETFL, O_WRONLY) != 0)) {
    fail_with_errno(place.path, "open for writing");
  }
  return file;
}

void check_writable(const fs::path& path) {
  const OutputPlace place = output_place(path);
  if (!place.is_direct) {
    const AtomicFile trial_file(place.path);
  } else if (place.stream < 0 && ::access(place.path.c_str(), W_OK) != 0) {
    fail_with_errno(place.path, "open for writing");
  }
}

}  // namespace fovea::io
