// LineReader over read(2).
#include "pipeline/line_reader.hpp"

#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/system_error.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxLine = std::size_t{1} << 20;

}  // namespace

LineReader::LineReader(const std::string& path, char delimiter)
    : delimiter_(delimiter), fd_(STDIN_FILENO) {
  if (path == "-") {
    return;
  }
  // O_NONBLOCK: a pipe is opened at once, and fill() waits for its writer.
  file_ = io::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file_.open()) {
    io::fail_with_errno("open");
  }
  fd_ = file_.get();
}

bool LineReader::fill(StopFlag stop) {
  // The writer of a pipe may keep its reader waiting for ever; a stopped job must not wait.
  constexpr int kStopIntervalMs = 50;
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t have = buffer_.size();
  buffer_.resize(have + kReadBytes);
  for (;;) {
    stop.poll();
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kStopIntervalMs) <= 0) {
      continue;
    }
    const ssize_t got = ::read(fd_, buffer_.data() + have, kReadBytes);
    if (got >= 0) {
      buffer_.resize(have + static_cast<std::size_t>(got));
      return got > 0;
    }
    if (errno != EINTR && errno != EAGAIN) {
      const int code = errno;
      buffer_.resize(have);
      errno = code;
      io::fail_with_errno("read");
    }
  }
}

bool LineReader::next(std::string& line, StopFlag stop) {
  std::size_t searched = at_;
  for (;;) {
    const std::size_t end = buffer_.find(delimiter_, searched);
    if (end != std::string::npos) {
      line.assign(buffer_, at_, end - at_);
      at_ = end + 1;
      ++number_;
      return true;
    }
    if (buffer_.size() - at_ > kMaxLine) {
      fail("line {} is longer than {} bytes, too long for a name", number_ + 1, kMaxLine);
    }
    searched = buffer_.size() - at_;  // fill() moves the rest to the front
    if (!fill(stop)) {
      line.assign(buffer_, at_);
      at_ = buffer_.size();
      number_ += line.empty() ? 0 : 1;
      return !line.empty();
    }
  }
}

}  // namespace fovea::pipeline
