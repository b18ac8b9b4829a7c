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

LineReader::LineReader(const std::string& path, char delimiter, const std::atomic<bool>* stop)
    : name_(path == "-" ? "standard input" : path), delimiter_(delimiter), stop_(stop) {
  if (path == "-") {
    fd_ = STDIN_FILENO;
    return;
  }
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    io::fail_with_errno(path, "open the list");
  }
  owns_fd_ = true;
}

LineReader::~LineReader() {
  if (owns_fd_) {
    ::close(fd_);
  }
}

// A pipe may keep a reader waiting for as long as its writer likes; a stopped job must not wait.
void LineReader::wait() const {
  constexpr int kStopIntervalMs = 50;
  pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
  while (stop_ != nullptr && ::poll(&ready, 1, kStopIntervalMs) <= 0) {
    if (stop_->load()) {
      throw Interrupted();
    }
  }
}

bool LineReader::fill() {
  wait();
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t have = buffer_.size();
  buffer_.resize(have + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::read(fd_, buffer_.data() + have, kReadBytes);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(have + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (got < 0) {
    io::fail_with_errno(name_, "read the list");
  }
  return got > 0;
}

bool LineReader::next(std::string& line) {
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
      fail("{}: line {} is longer than {} bytes; is this a list of names?", name_, number_ + 1,
           kMaxLine);
    }
    searched = buffer_.size() - at_;  // fill() moves the rest to the front
    if (!fill()) {
      line.assign(buffer_, at_);
      at_ = buffer_.size();
      number_ += line.empty() ? 0 : 1;
      return !line.empty();
    }
  }
}

}  // namespace fovea::pipeline
