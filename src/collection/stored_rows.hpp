// StoredRows: looks up rows of an output folder by the names and contents of their photos.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collection/photo_key.hpp"
#include "core/stop.hpp"
#include "io/descriptor.hpp"
#include "io/folder.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/manifest.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::collection {

/// The data per row in memory, about 50 bytes, so that an output may have tens of millions of rows.
struct StoredRow {
  Key photo{};              // key_of() its absolute name
  std::uint64_t name = 0;   // of its name as it stands in the index
  std::int64_t bytes = -1;  // see io::FileStamp; -1: the index does not say
  std::int64_t modified_ns = 0;
  std::uint64_t line_at = 0;  // where its line begins in its file

  [[nodiscard]] bool has_stamp() const { return bytes >= 0; }
  [[nodiscard]] bool is_of(const std::optional<io::FileStamp>& file) const {
    return file && bytes == file->bytes && modified_ns == file->modified_ns;
  }
};

/// Returns the hash of a name for StoredRow::name.
[[nodiscard]] std::uint64_t name_sum(std::string_view name);

/// A file of an output: rows [first, first + count) are in it.
struct StoredPart {
  std::string data_file;
  std::string line_file;  // of its index; the same in text
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t lines_end = 0;
  bool is_complete = false;  // no job is filling it
};

/// The rows of all files, numbered in order. Files are read on demand; they must have been verified
/// by pipeline::prove(), and must not change while the object lives.
class StoredRows {
 public:
  /// The rows that the manifest counts, in complete files and in the one that is being filled.
  /// Throws fovea::Error naming the file and the line when an index is malformed.
  StoredRows(std::shared_ptr<const io::Folder> folder, const pipeline::Manifest& manifest,
             StopFlag stop);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const StoredRow& operator[](std::size_t row) const { return rows_[row]; }
  [[nodiscard]] const std::vector<StoredPart>& parts() const { return parts_; }
  [[nodiscard]] const pipeline::OutputLayout& layout() const { return layout_; }
  [[nodiscard]] const std::string& working_folder() const { return working_folder_; }
  [[nodiscard]] const io::Folder& folder() const { return *folder_; }
  [[nodiscard]] std::size_t part_of(std::size_t row) const;

  /// The rows of a photo, in order.
  [[nodiscard]] std::span<const std::uint32_t> of_photo(const Key& photo) const;
  /// The first row of a photo with these contents.
  [[nodiscard]] std::optional<std::size_t> of_content(const Key& content) const;
  [[nodiscard]] bool has_content(std::size_t row, const Key& content) const;
  /// Whether the index has the content hash of any row.
  [[nodiscard]] bool knows_contents() const { return !by_content_.empty(); }
  [[nodiscard]] bool lost_range(std::size_t row) const { return lost_range_[row]; }

  // These read files; `row` and those after it are in one part.
  /// The lines of the index, or of the text, each with its newline.
  [[nodiscard]] std::string lines(std::size_t row, std::size_t count) const;
  [[nodiscard]] pipeline::IndexLine line(std::size_t row) const;
  /// Appends rows as they are stored to `rows`; none in text.
  void read(std::size_t row, std::size_t count, std::vector<std::byte>& rows) const;

 private:
  void add_part(std::uint64_t number, bool is_complete, std::uint64_t most_rows, StopFlag stop);
  [[nodiscard]] const pipeline::StoredFile& file(const std::string& name) const;

  std::shared_ptr<const io::Folder> folder_;
  pipeline::OutputLayout layout_;
  std::string working_folder_;
  std::vector<StoredPart> parts_;
  std::vector<StoredRow> rows_;
  std::vector<bool> lost_range_;
  std::vector<std::uint32_t> by_photo_;  // rows sorted by their photos, then numbers
  std::vector<std::pair<Key, std::uint32_t>> by_content_;  // sorted
  mutable std::map<std::string, pipeline::StoredFile> open_;
};

/// Returns the line with its row number replaced.
[[nodiscard]] std::string renumbered(std::string_view line, std::uint64_t row);

/// A line of an index with the embedding of a line of text; both have a newline.
[[nodiscard]] std::string with_embedding_of(std::string_view index_line, std::string_view text);

}  // namespace fovea::collection
