// LineReader: the lines of a list, read with bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/stop.hpp"
#include "io/descriptor.hpp"

namespace fovea::io {

/// Reads a file, a pipe or the standard input up to each delimiter. With newlines as delimiters, a
/// UTF-8 byte order mark and carriage returns before newlines are dropped, since lists may come
/// from Windows. With zero bytes, items are returned unchanged.
class LineReader {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// Opens the list; `path` "-" is the standard input. Does not wait for the writer of a pipe;
  /// next() does. Throws fovea::Error, without the path, when it cannot be opened.
  LineReader(const std::string& path, char delimiter, std::size_t max_bytes = kMaxBytes);

  /// Sets `line` to the next line without its delimiter; false at the end. The last line may lack
  /// the delimiter. Throws fovea::Error, without the path, when reading fails, when a line has more
  /// than `max_bytes`, or when a list of lines is in UTF-16 or UTF-32; Interrupted when `stop` is
  /// set while it waits for more.
  bool next(std::string& line, StopFlag stop = {});

  /// Returns the number of the last line that next() returned, from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  void begin(StopFlag stop);
  bool fill(StopFlag stop);

  char delimiter_;
  std::size_t max_bytes_;
  Descriptor file_;  // none for the standard input
  int fd_;
  bool has_begun_ = false;
  std::string buffer_;
  std::size_t position_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace fovea::io
