// ShardBuilder: copies consecutive rows in one piece.
#include "collection/shard_builder.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace fovea::collection {

void ShardBuilder::add(const StoredRows& rows, std::size_t row, const PhotoLine* photo) {
  constexpr std::size_t kMaxRunRows = 1024;
  const bool continues_run = photo == nullptr && run_rows_ == &rows &&
                             row == run_first_ + run_count_ && run_count_ < kMaxRunRows &&
                             rows.part_of(row) == rows.part_of(run_first_);
  if (!continues_run) {
    flush();
    run_rows_ = &rows;
    run_first_ = row;
  }
  ++run_count_;
  ++count_;
  if (photo == nullptr) {
    return;
  }
  pipeline::IndexLine line = rows.line(row);
  line.row = count_ - 1;
  line.source = photo->source;
  line.file = photo->file;
  line.sha256 = photo->sha256;
  std::string text = pipeline::format_index_line(line);
  std::vector<std::byte> bytes;
  if (layout_.has_index()) {
    rows.read(row, 1, bytes);
  } else {
    text = with_embedding(text, rows.lines(row, 1));
  }
  file_.append(bytes, text);
  run_count_ = 0;
}

void ShardBuilder::flush() {
  if (run_count_ == 0) {
    return;
  }
  stop_.poll();
  const std::string old_lines = run_rows_->lines(run_first_, run_count_);
  std::string lines;
  lines.reserve(old_lines.size());
  std::uint64_t number = count_ - run_count_;
  for (std::string_view rest = old_lines; !rest.empty();) {
    const std::size_t end = rest.find('\n') + 1;
    lines += renumber_line(rest.substr(0, end), number++);
    rest.remove_prefix(end);
  }
  std::vector<std::byte> bytes;
  run_rows_->read(run_first_, run_count_, bytes);
  file_.append(bytes, lines);
  run_count_ = 0;
}

pipeline::FileRecord ShardBuilder::commit() {
  flush();
  return file_.commit(count_);
}

}  // namespace fovea::collection
