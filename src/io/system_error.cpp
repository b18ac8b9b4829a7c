// Turns errno into messages.
#include "io/system_error.hpp"

#include <cerrno>
#include <cstring>
#include <string>

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

}  // namespace fovea::io
