// StoredFile: a file of an output, read back.
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

/// A file of an output, open for reading. Every error is a fovea::Error that names the file.
class StoredFile {
 public:
  StoredFile(const io::Folder& folder, const std::string& name);

  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  /// The result of stat(2) when it was opened.
  [[nodiscard]] const struct stat& info() const { return info_; }
  /// The path as messages show it.
  [[nodiscard]] const std::string& shown() const { return shown_; }

  struct Content {
    io::Digest sum;
    std::uint64_t lines = 0;  // newlines
    bool whole = true;        // the last byte is a newline, or there is none
  };
  /// Examines bytes [from, to). Throws Interrupted when `stop` is set meanwhile.
  [[nodiscard]] Content look_at(std::uint64_t from, std::uint64_t to, StopFlag stop) const;

  /// io::Digest::head() of bytes [from, end) for each of `ends`, which ascend; fewer results when
  /// the file is too short.
  [[nodiscard]] std::vector<std::uint64_t> sums(std::uint64_t from,
                                                const std::vector<std::uint64_t>& ends,
                                                StopFlag stop) const;

  /// Calls with each line that begins before byte `to`, without its newline, and its number from 1.
  /// A line is read into memory, so one of over 64 MiB, which Fovea never writes, is an error.
  void each_line(
      std::uint64_t to, StopFlag stop,
      const std::function<void(std::string_view line, std::uint64_t number)>& take) const;

  /// Passes on bytes [from, to) in pieces.
  void read(std::uint64_t from, std::uint64_t to, StopFlag stop,
            const std::function<void(std::span<const std::byte>)>& take) const;

  /// A short file as a text. A file longer than `limit` bytes is an error.
  [[nodiscard]] std::string text(std::uint64_t limit) const;
  /// Bytes [begin, end) as a text.
  [[nodiscard]] std::string text(std::uint64_t begin, std::uint64_t end, StopFlag stop) const;

 private:
  StoredFile(io::OpenedFile opened, const std::filesystem::path& path);

  struct stat info_{};
  io::File file_;
  std::string shown_;
};

}  // namespace fovea::pipeline
