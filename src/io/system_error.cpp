// errno turned into messages; fsync of folders.
#include "io/system_error.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::io {

namespace {

[[noreturn]] void fail_with_code(int code, const std::string& message) {
  if (code == EMFILE || code == ENFILE || code == ENOMEM) {
    throw ResourceError(message);
  }
  throw Error(message);
}

}  // namespace

void fail_with_errno(const std::filesystem::path& path, std::string_view action) {
  const int code = errno;
  fail_with_code(
      code, fmt::format("{}: cannot {}: {}", escape(path.native()), action, std::strerror(code)));
}

void fail_with_errno(std::string_view action) {
  const int code = errno;
  fail_with_code(code, fmt::format("cannot {}: {}", action, std::strerror(code)));
}

void sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path folder = directory.empty() ? "." : directory;
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fail_with_errno(folder, "open the folder to sync it");
  }
  const int result = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  // Some network file systems cannot sync a directory and say EINVAL; the rename still stands.
  if (result != 0 && code != EINVAL) {
    errno = code;
    fail_with_errno(folder, "sync the folder");
  }
}

}  // namespace fovea::io
