// StoredRows: reads indexes into memory, and rows and lines on demand.
#include "collection/stored_rows.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

#include "core/error.hpp"
#include "io/partial_file.hpp"
#include "io/text.hpp"
#include "pipeline/fingerprint.hpp"

namespace fovea::collection {
namespace {

constexpr std::string_view kRowKey = "{\"row\": ";
constexpr std::string_view kEmbeddingKey = ", \"embedding\": [";

// Returns a line of the text format without its embedding, which is a line of an index. The last
// match is the key, since an embedding holds only numbers.
std::string index_part(std::string_view line) {
  const std::size_t end = line.rfind(kEmbeddingKey);
  return end == std::string_view::npos ? std::string(line) : std::string(line.substr(0, end)) + "}";
}

}  // namespace

std::uint64_t name_hash(std::string_view name) {
  pipeline::NameHash hash;
  hash.add(name);
  return hash.value();
}

StoredRows::StoredRows(std::shared_ptr<const io::Folder> folder, const pipeline::Manifest& manifest,
                       StopFlag stop)
    : folder_(std::move(folder)),
      layout_(manifest.identity),
      working_folder_(manifest.identity.working_folder) {
  const pipeline::JobState& state = manifest.state;
  if (state.rows > std::numeric_limits<std::uint32_t>::max()) {
    fail("{}: cannot process an output of {} rows; at most {} are supported",
         io::escape(folder_->path().native()), state.rows,
         std::numeric_limits<std::uint32_t>::max());
  }
  rows_.reserve(state.rows);
  for (std::uint64_t number = 0; number < state.shards; ++number) {
    add_part(number, true, state.rows, stop);
  }
  if (state.open_rows > 0) {
    add_part(state.shards, false, state.open_rows, stop);
  }
  if (rows_.size() != state.rows) {
    fail("{}: its indexes have {} lines, but {} counts {} rows",
         io::escape(folder_->path().native()), rows_.size(), pipeline::kManifestFile, state.rows);
  }
  by_photo_.resize(rows_.size());
  std::iota(by_photo_.begin(), by_photo_.end(), 0U);
  std::ranges::sort(by_photo_, {},
                    [this](std::uint32_t row) { return std::pair(rows_[row].photo, row); });
  std::ranges::sort(by_content_);
}

void StoredRows::add_part(std::uint64_t number, bool is_complete, std::uint64_t max_rows,
                          StopFlag stop) {
  const std::string data = layout_.data_file(number);
  const std::string lines = layout_.has_index() ? layout_.index_file(number) : data;
  const auto current_name = [&](const std::string& name) {
    return is_complete ? name : io::PartialFile::left_as(*folder_, name);
  };
  StoredPart part{.data_file = current_name(data),
                  .line_file = current_name(lines),
                  .first = rows_.size(),
                  .is_complete = is_complete};
  const pipeline::StoredFile& index = file(part.line_file);
  index.each_line(index.size(), stop, [&](std::string_view text, std::uint64_t number) {
    if (part.count == max_rows) {
      return;  // a killed job may have written lines that its manifest does not count
    }
    try {
      const pipeline::IndexLine line =
          pipeline::parse_index_line(layout_.has_index() ? std::string(text) : index_part(text));
      if (line.row != part.count) {
        fail("the row number is {}, expected {}", line.row, part.count);
      }
      StoredRow row{.photo = name_key(absolute_name(working_folder_, line.source)),
                    .name_hash = name_hash(line.source),
                    .line_offset = part.line_bytes};
      if (line.file) {
        row.bytes = line.file->bytes;
        row.modified_ns = line.file->modified_ns;
      }
      if (!line.sha256.empty()) {
        by_content_.emplace_back(content_key(line.sha256),
                                 static_cast<std::uint32_t>(rows_.size()));
      }
      rows_.push_back(row);
      lost_range_.push_back(line.lost_range);
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}: line {}: {}", index.display_path(), number, error.what());
    }
    ++part.count;
    part.line_bytes += text.size() + 1;
  });
  parts_.push_back(std::move(part));
}

std::size_t StoredRows::part_of(std::size_t row) const {
  // An empty part begins at the same row as the next one; this takes the last of them.
  const auto next_part = std::ranges::upper_bound(parts_, row, {}, &StoredPart::first);
  return static_cast<std::size_t>(std::distance(parts_.begin(), next_part)) - 1;
}

std::span<const std::uint32_t> StoredRows::rows_of_photo(const Key& photo) const {
  const auto matches = std::ranges::equal_range(
      by_photo_, photo, {}, [this](std::uint32_t row) { return rows_[row].photo; });
  return {matches.begin(), matches.end()};
}

std::optional<std::size_t> StoredRows::row_with_content(const Key& content) const {
  const auto match = std::ranges::lower_bound(by_content_, std::pair(content, std::uint32_t{0}));
  if (match == by_content_.end() || match->first != content) {
    return std::nullopt;
  }
  return match->second;
}

bool StoredRows::has_content(std::size_t row, const Key& content) const {
  return std::ranges::binary_search(by_content_,
                                    std::pair(content, static_cast<std::uint32_t>(row)));
}

const pipeline::StoredFile& StoredRows::file(const std::string& name) const {
  constexpr std::size_t kMaxOpenFiles = 32;
  const auto entry = open_files_.find(name);
  if (entry != open_files_.end()) {
    return entry->second;
  }
  if (open_files_.size() >= kMaxOpenFiles) {
    open_files_.clear();
  }
  return open_files_.emplace(name, pipeline::StoredFile(*folder_, name)).first->second;
}

std::string StoredRows::lines(std::size_t row, std::size_t count) const {
  const StoredPart& part = parts_[part_of(row)];
  const std::size_t end = row + count;
  const std::uint64_t end_offset =
      end < part.first + part.count ? rows_[end].line_offset : part.line_bytes;
  std::string text = file(part.line_file).text(rows_[row].line_offset, end_offset, {});
  if (!text.ends_with('\n')) {
    text += '\n';
  }
  return text;
}

pipeline::IndexLine StoredRows::line(std::size_t row) const {
  std::string text = lines(row, 1);
  text.pop_back();
  return pipeline::parse_index_line(layout_.has_index() ? text : index_part(text));
}

void StoredRows::read(std::size_t row, std::size_t count, std::vector<std::byte>& rows) const {
  if (!layout_.has_index()) {
    return;
  }
  const StoredPart& part = parts_[part_of(row)];
  const std::uint64_t begin = layout_.header_bytes() + (row - part.first) * layout_.row_bytes();
  file(part.data_file)
      .read(begin, begin + count * layout_.row_bytes(), {}, [&](std::span<const std::byte> piece) {
        rows.insert(rows.end(), piece.begin(), piece.end());
      });
}

std::string renumber_line(std::string_view line, std::uint64_t row) {
  const std::size_t end = line.find_first_not_of("0123456789", kRowKey.size());
  if (!line.starts_with(kRowKey) || end == std::string_view::npos) {
    fail("an index line does not begin with its row number");
  }
  return fmt::format("{}{}{}", kRowKey, row, line.substr(end));
}

std::string with_embedding(std::string_view index_line, std::string_view text) {
  index_line.remove_suffix(std::string_view("}\n").size());
  return std::string(index_line) + std::string(text.substr(text.rfind(kEmbeddingKey)));
}

}  // namespace fovea::collection
