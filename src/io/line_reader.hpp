// LineReader: the lines of a list, read with bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/stop.hpp"
#include "io/descriptor.hpp"

namespace fovea::io {

/// Reads a file, a pipe or the standard input up to each delimiter. A list of lines may come from
/// Windows: a byte order mark before its UTF-8 and the carriage returns before its newlines are no
/// part of its lines. What a zero byte delimits is taken as it is.
class LineReader {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// `path` "-" is the standard input. next(), not this, waits for a pipe that has no writer yet.
  /// Throws fovea::Error, without the path, when it cannot be opened.
  LineReader(const std::string& path, char delimiter, std::size_t most_bytes = kMaxBytes);

  /// Sets `line` to the next line without its delimiter; false at the end. The last line may lack
  /// the delimiter. Throws fovea::Error, without the path, when reading fails, when a line has more
  /// than `most_bytes`, or when a list of lines is in UTF-16 or UTF-32; Interrupted when `stop` is
  /// set while it waits for more.
  bool next(std::string& line, StopFlag stop = {});

  /// The number of the last line that next() gave, from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  void begin(StopFlag stop);
  bool fill(StopFlag stop);

  char delimiter_;
  std::size_t most_bytes_;
  Descriptor file_;  // none for the standard input
  int fd_;
  bool begun_ = false;
  std::string buffer_;
  std::size_t position_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace fovea::io
