// StoredFile: reads a file of an output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.hpp"
#include "io/digest.hpp"
#include "io/file.hpp"
#include "io/folder.hpp"

namespace fovea::pipeline {

/// A file of an output, open for reading. Errors are reported as fovea::Error with its name.
class StoredFile {
 public:
  StoredFile(const io::Folder& folder, const std::string& name);

  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  /// Returns the result of stat(2) when the file was opened.
  [[nodiscard]] const struct stat& info() const { return info_; }
  /// Returns the path, escaped for messages.
  [[nodiscard]] const std::string& display_path() const { return display_path_; }

  struct Content {
    io::Digest sum;
    std::uint64_t lines = 0;  // the number of newlines
    bool ends_line = true;    // whether the last byte, if there is one, is a newline
  };
  /// Reads the bytes [begin, end) and summarizes them. Throws Interrupted when `stop` is set.
  [[nodiscard]] Content read_content(std::uint64_t begin, std::uint64_t end, StopFlag stop) const;

  /// Returns io::Digest::head() of the bytes [begin, end) for each of `ends`, which must ascend.
  /// Returns fewer results when the file is shorter.
  [[nodiscard]] std::vector<std::uint64_t> sums(std::uint64_t begin,
                                                const std::vector<std::uint64_t>& ends,
                                                StopFlag stop) const;

  /// Calls `take` with each line of the bytes before `end`, without its newline, and with its
  /// number, counted from 1. A line is read into memory, so one of more than 64 MiB, which Fovea
  /// never writes, is an error.
  void each_line(
      std::uint64_t end, StopFlag stop,
      const std::function<void(std::string_view line, std::uint64_t number)>& take) const;

  /// Calls `take` with the bytes [begin, end) in pieces.
  void read(std::uint64_t begin, std::uint64_t end, StopFlag stop,
            const std::function<void(std::span<const std::byte>)>& take) const;

  /// Returns the content of a short file. A size of more than `limit` bytes is an error.
  [[nodiscard]] std::string text(std::uint64_t limit) const;
  /// Returns the bytes [begin, end).
  [[nodiscard]] std::string text(std::uint64_t begin, std::uint64_t end, StopFlag stop) const;

 private:
  StoredFile(io::OpenedFile opened, const std::filesystem::path& path);

  struct stat info_{};
  io::File file_;
  std::string display_path_;
};

}  // namespace fovea::pipeline
