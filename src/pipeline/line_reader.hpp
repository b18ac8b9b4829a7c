// LineReader: the lines of a list, read with bounded memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.hpp"

namespace fovea::pipeline {

/// Reads a file, or the standard input, up to each delimiter.
class LineReader {
 public:
  /// `path` "-" is the standard input. Throws fovea::Error when it cannot be opened.
  /// next() throws Interrupted when `stop` is set while it waits for more.
  LineReader(const std::string& path, char delimiter, const std::atomic<bool>* stop = nullptr);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Sets `line` to the next line without its delimiter; false at the end. The last line may lack
  /// the delimiter. Throws fovea::Error when reading fails, or on a line of more than 1 MiB, which
  /// no list of names has.
  bool next(std::string& line);

  /// Number of the line that next() gave last, from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  bool fill();
  void wait() const;

  std::string name_;  // for messages
  char delimiter_;
  const std::atomic<bool>* stop_;
  int fd_ = -1;
  bool owns_fd_ = false;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace fovea::pipeline
