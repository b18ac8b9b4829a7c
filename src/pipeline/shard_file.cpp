// ShardFile: an embeddings file and its index, each with a checksum.
#include "pipeline/shard_file.hpp"

#include <future>
#include <system_error>
#include <utility>

namespace fovea::pipeline {

void SummedFile::write(std::span<const std::byte> bytes) {
  // Writing fewer bytes takes less time than starting a thread for their checksum.
  constexpr std::size_t kMinParallelBytes = std::size_t{4} << 20;
  if (bytes.size() < kMinParallelBytes) {
    file_.write(bytes);
    sum_.add(bytes);
    return;
  }
  std::future<void> sum;  // the destructor waits for the thread
  try {
    sum = std::async(std::launch::async, [&] { sum_.add(bytes); });
  } catch (const std::system_error&) {
    sum_.add(bytes);  // no thread is available, so the checksum is computed first
  }
  file_.write(bytes);
  if (sum.valid()) {
    sum.get();
  }
}

void SummedFile::write_header(std::string_view header) {
  const auto bytes = std::as_bytes(std::span(header));
  if (file_.size() == 0) {
    file_.write(bytes);
  } else {
    file_.write_at(0, bytes);
  }
}

ShardFile::ShardFile(std::shared_ptr<const io::Folder> folder, const OutputLayout& layout,
                     std::uint64_t number)
    : ShardFile(std::move(folder), layout, number, KeptPart()) {}

ShardFile::ShardFile(std::shared_ptr<const io::Folder> folder, const OutputLayout& layout,
                     std::uint64_t number, KeptPart kept)
    : layout_(layout),
      number_(number),
      data_(folder, layout.data_file(number), kept.data_bytes, std::move(kept.data)) {
  if (layout_.has_index()) {
    index_.emplace(std::move(folder), layout_.index_file(number), kept.index_bytes,
                   std::move(kept.index));
    if (kept.data_bytes == 0) {
      data_.write_header(layout_.header(0));
    }
  }
}

void ShardFile::append(std::span<const std::byte> rows, std::string_view lines) {
  if (index_) {
    data_.write(rows);
    index_->write(lines);
  } else {
    data_.write(lines);
  }
}

void ShardFile::sync() {
  data_.sync();
  if (index_) {
    index_->sync();
  }
}

FileRecord ShardFile::commit(std::uint64_t rows) {
  FileRecord record{
      .number = number_, .rows = rows, .data_bytes = data_.size(), .data_sum = data_.sum()};
  if (index_) {
    record.index_bytes = index_->size();
    record.index_sum = index_->sum();
    data_.write_header(layout_.header(rows));
    index_->commit();
  }
  data_.commit();
  return record;
}

}  // namespace fovea::pipeline
