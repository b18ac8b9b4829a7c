// StoredRows: reads complete indexes, and rows on demand.
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

constexpr std::string_view kBeforeRow = "{\"row\": ";
constexpr std::string_view kBeforeEmbedding = ", \"embedding\": [";

// The part of a line that is as in an index. Nothing in an embedding can be taken for its key.
std::string index_part(std::string_view line) {
  const std::size_t end = line.rfind(kBeforeEmbedding);
  return end == std::string_view::npos ? std::string(line) : std::string(line.substr(0, end)) + "}";
}

}  // namespace

std::uint64_t name_sum(std::string_view name) {
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
    fail("{}: has {} rows; at most {} are supported here", io::escape(folder_->path().native()),
         state.rows, std::numeric_limits<std::uint32_t>::max());
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

void StoredRows::add_part(std::uint64_t number, bool is_complete, std::uint64_t most_rows,
                          StopFlag stop) {
  const std::string data = layout_.data_file(number);
  const std::string lines = layout_.has_index() ? layout_.index_file(number) : data;
  const auto found = [&](const std::string& name) {
    return is_complete ? name : io::PartialFile::left_as(*folder_, name);
  };
  StoredPart part{.data_file = found(data),
                  .line_file = found(lines),
                  .first = rows_.size(),
                  .is_complete = is_complete};
  const pipeline::StoredFile& index = file(part.line_file);
  index.each_line(index.size(), stop, [&](std::string_view text, std::uint64_t number) {
    if (part.count == most_rows) {
      return;  // the rest of a growing file was not counted before a kill
    }
    try {
      const pipeline::IndexLine line =
          pipeline::parse_index_line(layout_.has_index() ? std::string(text) : index_part(text));
      if (line.row != part.count) {
        fail("is for row {}, expected row {}", line.row, part.count);
      }
      StoredRow row{.photo = key_of(absolute_name(working_folder_, line.source)),
                    .name = name_sum(line.source),
                    .line_at = part.lines_end};
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
      fail("{}: line {}: {}", index.shown(), number, error.what());
    }
    ++part.count;
    part.lines_end += text.size() + 1;
  });
  parts_.push_back(std::move(part));
}

std::size_t StoredRows::part_of(std::size_t row) const {
  const auto after = std::ranges::upper_bound(parts_, row, {}, &StoredPart::first);
  // A part without rows begins at the same row as the next part.
  return static_cast<std::size_t>(std::distance(parts_.begin(), after)) - 1;
}

std::span<const std::uint32_t> StoredRows::of_photo(const Key& photo) const {
  const auto same = std::ranges::equal_range(
      by_photo_, photo, {}, [this](std::uint32_t row) { return rows_[row].photo; });
  return {same.begin(), same.end()};
}

std::optional<std::size_t> StoredRows::of_content(const Key& content) const {
  const auto found = std::ranges::lower_bound(by_content_, std::pair(content, std::uint32_t{0}));
  if (found == by_content_.end() || found->first != content) {
    return std::nullopt;
  }
  return found->second;
}

bool StoredRows::has_content(std::size_t row, const Key& content) const {
  return std::ranges::binary_search(by_content_,
                                    std::pair(content, static_cast<std::uint32_t>(row)));
}

const pipeline::StoredFile& StoredRows::file(const std::string& name) const {
  constexpr std::size_t kMaxOpenFiles = 32;
  const auto found = open_.find(name);
  if (found != open_.end()) {
    return found->second;
  }
  if (open_.size() >= kMaxOpenFiles) {
    open_.clear();
  }
  return open_.emplace(name, pipeline::StoredFile(*folder_, name)).first->second;
}

std::string StoredRows::lines(std::size_t row, std::size_t count) const {
  const StoredPart& part = parts_[part_of(row)];
  const std::size_t end = row + count;
  const std::uint64_t to = end < part.first + part.count ? rows_[end].line_at : part.lines_end;
  std::string text = file(part.line_file).text(rows_[row].line_at, to, {});
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
  const std::uint64_t from = layout_.header_bytes() + (row - part.first) * layout_.row_bytes();
  file(part.data_file)
      .read(from, from + count * layout_.row_bytes(), {}, [&](std::span<const std::byte> piece) {
        rows.insert(rows.end(), piece.begin(), piece.end());
      });
}

std::string renumbered(std::string_view line, std::uint64_t row) {
  const std::size_t end = line.find_first_not_of("0123456789", kBeforeRow.size());
  if (!line.starts_with(kBeforeRow) || end == std::string_view::npos) {
    fail("a line of an index does not begin with its row");
  }
  return fmt::format("{}{}{}", kBeforeRow, row, line.substr(end));
}

std::string with_embedding_of(std::string_view index_line, std::string_view text) {
  index_line.remove_suffix(std::string_view("}\n").size());
  return std::string(index_line) + std::string(text.substr(text.rfind(kBeforeEmbedding)));
}

}  // namespace fovea::collection
