// Ledger: appends lines with write(2) and fsync(2), under an exclusive flock(2).
#include "lab/system/ledger.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/file_lock.hpp"
#include "io/json.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "io/write_all.hpp"

namespace fovea::lab {
namespace {

std::string whole_text(int file, const std::string& path) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno != EINTR) {
      io::fail_with_errno(path, "read");
    }
    if (count == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
}

}  // namespace

Ledger::Ledger(const std::string& path, bool resume, bool overwrite)
    : path_(path),
      is_replaced_(overwrite),
      file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (!file_.open()) {
    io::fail_with_errno(path, "open");
  }
  struct stat info{};
  if (::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    fail("{}: is not a regular file", io::escape(path));
  }
  if (!io::try_lock(file_, io::Sharing::kExclusive, path)) {
    fail("{}: another run writes this ledger; wait for it, or choose another file",
         io::escape(path));
  }
  if (overwrite) {
    return;
  }
  const std::string text = whole_text(file_.get(), path);
  if (!text.empty() && !resume) {
    fail(
        "{}: exists; use --resume to continue its run, --overwrite to replace it, or choose "
        "another file",
        io::escape(path));
  }
  std::size_t valid_bytes = 0;  // size of the valid lines
  for (std::size_t end = 0; (end = text.find('\n', valid_bytes)) != std::string::npos;
       valid_bytes = end + 1) {
    auto line =
        io::try_parse_ordered_json(std::string_view(text).substr(valid_bytes, end - valid_bytes));
    if (!line.is_object() || !line.contains("kind")) {
      if (end + 1 == text.size() && !lines_.empty()) {
        break;  // the last line may be garbage after a power failure
      }
      fail("{}: line {} is not a line of a ledger", io::escape(path), lines_.size() + 1);
    }
    lines_.push_back(std::move(line));
  }
  // The file may contain only a part of the first line, if its writer was killed.
  constexpr std::string_view kBegin = R"({"kind":"run")";
  if (valid_bytes == 0 && text.substr(0, kBegin.size()) != kBegin.substr(0, text.size())) {
    fail("{}: is not a ledger", io::escape(path));
  }
  if (valid_bytes < text.size() && ::ftruncate(file_.get(), static_cast<off_t>(valid_bytes)) != 0) {
    io::fail_with_errno(path, "truncate");
  }
}

void Ledger::append(const nlohmann::ordered_json& line) {
  if (is_replaced_ && ::ftruncate(file_.get(), 0) != 0) {
    io::fail_with_errno(path_, "empty");
  }
  is_replaced_ = false;
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  io::write_all(file_.get(), std::as_bytes(std::span(text)), path_);
  io::sync_file(file_, path_);
}

}  // namespace fovea::lab
