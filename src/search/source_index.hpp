// SourceIndex: looks up the names of the rows of a shard in its JSON lines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.hpp"

namespace fovea::search {

/// A line of an index. The size is 0 when the line lacks it.
struct IndexEntry {
  std::string source;  // escaped, as in the file
  int width = 0;
  int height = 0;
  std::optional<io::FileStamp> file = {};  // of the image file; missing in older outputs
};

/// A file index-NNNNN.jsonl. Opening a large one reads only its first and last lines, so that
/// indexes of millions of rows open fast. Lines are found by interpolation search. When that fails,
/// or after many lookups, the positions of all lines are stored. The file is not kept open; reading
/// it throws fovea::Error when it has changed. Thread-safe.
class SourceIndex {
 public:
  /// `rows`: the number of lines that the file should have.
  SourceIndex(std::filesystem::path path, std::int64_t rows);

  /// Returns the number of lines; the expected one if the first and last lines have the right rows.
  [[nodiscard]] std::int64_t rows() const { return rows_; }

  /// Returns the line of a row. Throws fovea::Error naming the file and the line when the line is
  /// malformed, belongs to another row, or has a name that is not a result of io::escape().
  [[nodiscard]] IndexEntry entry(std::int64_t row) const;

  /// Returns the first row with this "source", or -1.
  [[nodiscard]] std::int64_t find(const std::string& source) const;

  /// Returns the first row whose "source" ends in the file name `name` and for which `matches`
  /// returns true, or -1.
  [[nodiscard]] std::int64_t find_file(
      const std::string& name, const std::function<bool(const std::string& source)>& matches) const;

 private:
  // Consecutive lines of the file, and the row of the first one.
  struct Lines {
    std::string_view text;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // The ends of all lines as offsets in the file, which are determined when they are first needed.
  struct LineEnds {
    std::once_flag once;
    std::vector<std::uint64_t> offsets;
    std::atomic<int> lookups{0};  // the number of lookups of single lines so far
  };

  [[nodiscard]] bool check_row_numbers(const io::File& file) const;
  void find_line_ends(const io::File& file) const;
  [[nodiscard]] const std::vector<std::uint64_t>& line_ends() const;
  [[nodiscard]] std::optional<std::string> look_up(std::int64_t row) const;
  [[nodiscard]] std::int64_t search(
      const std::function<std::int64_t(const Lines&)>& find_row) const;
  [[nodiscard]] std::string_view line(const Lines& lines, std::int64_t row) const;
  [[nodiscard]] std::int64_t row_at(const Lines& lines, std::size_t offset) const;
  [[nodiscard]] std::uint64_t line_begin(std::int64_t row) const;
  [[nodiscard]] std::uint64_t line_end(std::int64_t row) const;
  [[nodiscard]] IndexEntry parse(std::string_view line, std::int64_t row) const;
  [[noreturn]] void fail_at_line(std::int64_t row, std::string_view problem) const;

  std::filesystem::path path_;
  io::File::Version version_;
  std::int64_t rows_ = 0;
  bool has_row_numbers_ = false;  // whether the first and last lines have the right rows
  std::unique_ptr<LineEnds> line_ends_;
};

}  // namespace fovea::search
