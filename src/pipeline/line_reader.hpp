// LineReader: the lines of a list, read with bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/stop.hpp"
#include "io/descriptor.hpp"

namespace fovea::pipeline {

/// Reads a file, a pipe or the standard input up to each delimiter.
class LineReader {
 public:
  /// `path` "-" is the standard input. next(), not this, waits for a pipe that has no writer yet.
  /// Throws fovea::Error, without the path, when it cannot be opened.
  LineReader(const std::string& path, char delimiter);

  /// Sets `line` to the next line without its delimiter; false at the end. The last line may lack
  /// the delimiter. Throws fovea::Error, without the path, when reading fails or a line has more
  /// than 1 MiB, too much for a name; Interrupted when `stop` is set while it waits for more.
  bool next(std::string& line, StopFlag stop = {});

  /// The number of the last line that next() gave, from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  bool fill(StopFlag stop);

  char delimiter_;
  io::Descriptor file_;  // none for the standard input
  int fd_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace fovea::pipeline
