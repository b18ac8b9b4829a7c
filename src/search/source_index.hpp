// SourceIndex: the names of a shard's rows, read from its memory-mapped JSON lines when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/mapped_file.hpp"

namespace fovea::search {

/// An index-NNNNN.jsonl file. Opening finds the lines; only those asked for are parsed, so that
/// millions of rows cost no time.
class SourceIndex {
 public:
  explicit SourceIndex(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(starts_.size()); }

  /// The "source" of a row, as it stands in the file. Throws fovea::Error naming file and line
  /// when the line is malformed or belongs to another row.
  [[nodiscard]] std::string source(std::int64_t row) const;

  /// The first row of that "source", or -1.
  [[nodiscard]] std::int64_t find(const std::string& source) const;

  /// The first row whose "source" ends in this file's name and is the one, or -1.
  [[nodiscard]] std::int64_t find_file(
      const std::string& name, const std::function<bool(const std::string& source)>& is_it) const;

 private:
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] std::string_view line(std::int64_t row) const;
  [[nodiscard]] std::int64_t row_at(std::size_t offset) const;

  io::MappedFile file_;
  std::vector<std::size_t> starts_;  // byte offset of each line
};

}  // namespace fovea::search
