// SourceIndex: the names of a shard's rows, read from its JSON lines when asked for.
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

/// A line of an index. Sizes are 0 where the line says none.
struct IndexEntry {
  std::string source;  // as it stands in the file
  int width = 0;
  int height = 0;
  std::optional<io::FileStamp> file = {};  // that was embedded; nothing in older outputs
};

/// An index-NNNNN.jsonl file. Opening a large one reads only its first and last line. Lines are
/// found by interpolation search; all lines are indexed when that fails, or after many lookups. So
/// indexes of millions of rows open fast. The file is not kept open; a read throws fovea::Error
/// when it has changed. Thread-safe.
class SourceIndex {
 public:
  /// `rows`: how many lines it should have.
  SourceIndex(std::filesystem::path path, std::int64_t rows);

  /// How many lines it has; as many as it should when the first and the last one say so.
  [[nodiscard]] std::int64_t rows() const { return rows_; }

  /// Throws fovea::Error naming file and line when the line is malformed or belongs to another row,
  /// or when io::escape never makes its name.
  [[nodiscard]] IndexEntry entry(std::int64_t row) const;

  /// The first row with that "source", or -1.
  [[nodiscard]] std::int64_t find(const std::string& source) const;

  /// The first row whose "source" ends in this file name and satisfies the condition, or -1.
  [[nodiscard]] std::int64_t find_file(
      const std::string& name, const std::function<bool(const std::string& source)>& is_it) const;

 private:
  // Lines as they are in the file, and the row of the first one.
  struct Lines {
    std::string_view text;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // Ends of the lines, in bytes from the file's start; found when they are first needed.
  struct Ends {
    std::once_flag once;
    std::vector<std::uint64_t> offsets;
    std::atomic<int> lookups{0};  // so far, of single lines
  };

  [[nodiscard]] bool says_all_rows(const io::File& file) const;
  void find_ends(const io::File& file) const;
  [[nodiscard]] const std::vector<std::uint64_t>& ends() const;
  [[nodiscard]] std::optional<std::string> look_up(std::int64_t row) const;
  [[nodiscard]] std::int64_t search(const std::function<std::int64_t(const Lines&)>& look) const;
  [[nodiscard]] std::string_view line(const Lines& lines, std::int64_t row) const;
  [[nodiscard]] std::int64_t row_at(const Lines& lines, std::size_t offset) const;
  [[nodiscard]] std::uint64_t begin_of(std::int64_t row) const;
  [[nodiscard]] std::uint64_t end_of(std::int64_t row) const;
  [[nodiscard]] IndexEntry parse(std::string_view line, std::int64_t row) const;
  [[noreturn]] void refuse(std::int64_t row, std::string_view what) const;

  std::filesystem::path path_;
  io::File::Version version_;
  std::int64_t rows_ = 0;
  bool says_rows_ = false;  // in the first and the last line
  std::unique_ptr<Ends> ends_;
};

}  // namespace fovea::search
