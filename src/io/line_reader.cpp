// LineReader: implemented with read(2).
#include "io/line_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"

namespace fovea::io {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kEncodingBytes = 4;  // bytes from which the encoding is detected

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // U+FEFF in UTF-8

/// Returns "UTF-16" or "UTF-32" when a text begins like it, with or without a byte order mark. Both
/// are detected by their zero bytes, which UTF-8 lists of lines do not contain.
std::string_view wide_encoding(std::string_view text) {
  const auto zero = [&](std::size_t index) { return index < text.size() && text[index] == '\0'; };
  const auto nonzero = [&](std::size_t index) {
    return index < text.size() && text[index] != '\0';
  };
  if (text.find('\0') == std::string_view::npos) {
    return "";
  }
  if ((nonzero(0) && zero(1) && zero(2) && zero(3)) ||
      text.starts_with("\xff\xfe"
                       "\0\0"sv) ||
      (zero(0) && zero(1) && nonzero(2) != nonzero(3)) || text.starts_with("\0\0\xfe\xff"sv)) {
    return "UTF-32";
  }
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
                 (nonzero(0) && zero(1) && nonzero(2) && zero(3)) ||
                 (zero(0) && nonzero(1) && zero(2) && nonzero(3))
             ? "UTF-16"
             : "";
}

}  // namespace

LineReader::LineReader(const std::string& path, char delimiter, std::size_t max_bytes)
    : delimiter_(delimiter), max_bytes_(max_bytes), fd_(STDIN_FILENO) {
  if (path == "-") {
    return;
  }
  // O_NONBLOCK: a pipe is opened at once, and fill() waits for its writer.
  file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file_.open()) {
    fail_with_errno("open");
  }
  fd_ = file_.get();
}

bool LineReader::fill(StopFlag stop) {
  // The interval at which the stop flag is polled while a pipe has no data.
  constexpr int kStopIntervalMs = 50;
  buffer_.erase(0, position_);
  position_ = 0;
  const std::size_t old_size = buffer_.size();
  buffer_.resize(old_size + kReadBytes);
  for (;;) {
    stop.poll();
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kStopIntervalMs) <= 0) {
      continue;
    }
    const ssize_t count = ::read(fd_, buffer_.data() + old_size, kReadBytes);
    if (count >= 0) {
      buffer_.resize(old_size + static_cast<std::size_t>(count));
      return count > 0;
    }
    if (errno != EINTR && errno != EAGAIN) {
      const int code = errno;
      buffer_.resize(old_size);
      errno = code;
      fail_with_errno("read");
    }
  }
}

void LineReader::begin(StopFlag stop) {
  while (buffer_.size() < kEncodingBytes && fill(stop)) {
  }
  has_begun_ = true;
  if (delimiter_ != '\n') {
    return;
  }
  if (const std::string_view encoding = wide_encoding(buffer_); !encoding.empty()) {
    fail("the list is in {}; expected UTF-8: save it again in UTF-8", encoding);
  }
  if (buffer_.starts_with(kByteOrderMark)) {
    position_ = kByteOrderMark.size();
  }
}

bool LineReader::next(std::string& line, StopFlag stop) {
  if (!has_begun_) {
    begin(stop);
  }
  std::size_t searched = position_;
  for (;;) {
    const std::size_t end = buffer_.find(delimiter_, searched);
    if (std::min(end, buffer_.size()) - position_ > max_bytes_) {
      fail("line {} is too long (more than {} bytes)", number_ + 1, max_bytes_);
    }
    if (end != std::string::npos) {
      line.assign(buffer_, position_, end - position_);
      position_ = end + 1;
      break;
    }
    searched = buffer_.size() - position_;  // fill() moves the rest to the front
    if (!fill(stop)) {
      line.assign(buffer_, position_);
      position_ = buffer_.size();
      if (line.empty()) {
        return false;
      }
      break;
    }
  }
  ++number_;
  if (delimiter_ == '\n' && line.ends_with('\r')) {
    line.pop_back();
  }
  return true;
}

}  // namespace fovea::io
