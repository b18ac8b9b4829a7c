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

/// What is kept in memory of a row: about 50 bytes, so that an output may have tens of millions of
/// rows.
struct StoredRow {
  Key photo{};                  // name_key() of the absolute name
  std::uint64_t name_hash = 0;  // name_hash() of the name in the index
  std::int64_t bytes = -1;      // the size of the file; -1 when the index lacks it
  std::int64_t modified_ns = 0;
  std::uint64_t line_offset = 0;  // of the index line in its file

  [[nodiscard]] bool has_stamp() const { return bytes >= 0; }
  [[nodiscard]] bool has_stamp_of(const std::optional<io::FileStamp>& file) const {
    return file && bytes == file->bytes && modified_ns == file->modified_ns;
  }
};

/// Returns the hash of a name for StoredRow::name_hash.
[[nodiscard]] std::uint64_t name_hash(std::string_view name);

/// A file of an output. It holds the rows [first, first + count).
struct StoredPart {
  std::string data_file;
  std::string line_file;  // the index; in the text format, the same file
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t line_bytes = 0;  // of all lines together
  bool is_complete = false;      // false while a job appends rows
};

/// The rows of all files, numbered in order. Files are read on demand; they must have been verified
/// by pipeline::prove(), and must not change while the object lives.
class StoredRows {
 public:
  /// Reads the lines of all rows that the manifest counts, including those of an incomplete last
  /// file. Throws fovea::Error naming the file and the line when an index is malformed.
  StoredRows(std::shared_ptr<const io::Folder> folder, const pipeline::Manifest& manifest,
             StopFlag stop);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const StoredRow& operator[](std::size_t row) const { return rows_[row]; }
  [[nodiscard]] const std::vector<StoredPart>& parts() const { return parts_; }
  [[nodiscard]] const pipeline::OutputLayout& layout() const { return layout_; }
  [[nodiscard]] const std::string& working_folder() const { return working_folder_; }
  [[nodiscard]] const io::Folder& folder() const { return *folder_; }
  [[nodiscard]] std::size_t part_of(std::size_t row) const;

  /// Returns the rows of a photo, in order.
  [[nodiscard]] std::span<const std::uint32_t> rows_of_photo(const Key& photo) const;
  /// Returns the first row of a photo with these contents.
  [[nodiscard]] std::optional<std::size_t> row_with_content(const Key& content) const;
  [[nodiscard]] bool has_content(std::size_t row, const Key& content) const;
  /// Returns whether the index has content hashes.
  [[nodiscard]] bool has_contents() const { return !by_content_.empty(); }
  [[nodiscard]] bool lost_range(std::size_t row) const { return lost_range_[row]; }

  // These functions read files. All `count` rows must be in one part.
  /// Returns the lines of the index or of the text format, each with its newline.
  [[nodiscard]] std::string lines(std::size_t row, std::size_t count) const;
  [[nodiscard]] pipeline::IndexLine line(std::size_t row) const;
  /// Appends the stored bytes of rows to `rows`; does nothing for the text format.
  void read(std::size_t row, std::size_t count, std::vector<std::byte>& rows) const;

 private:
  void add_part(std::uint64_t number, bool is_complete, std::uint64_t max_rows, StopFlag stop);
  [[nodiscard]] const pipeline::StoredFile& file(const std::string& name) const;

  std::shared_ptr<const io::Folder> folder_;
  pipeline::OutputLayout layout_;
  std::string working_folder_;
  std::vector<StoredPart> parts_;
  std::vector<StoredRow> rows_;
  std::vector<bool> lost_range_;
  std::vector<std::uint32_t> by_photo_;                    // row numbers sorted by photo
  std::vector<std::pair<Key, std::uint32_t>> by_content_;  // sorted rows
  mutable std::map<std::string, pipeline::StoredFile> open_files_;
};

/// Returns the line with another row number.
[[nodiscard]] std::string renumber_line(std::string_view line, std::uint64_t row);

/// Returns an index line with the embedding of `text`, a line of the text format, appended. All end
/// in a newline.
[[nodiscard]] std::string with_embedding(std::string_view index_line, std::string_view text);

}  // namespace fovea::collection
