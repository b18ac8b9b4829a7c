// ShardBuilder: builds an embeddings file and its index from rows of other outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collection/stored_rows.hpp"
#include "io/descriptor.hpp"
#include "io/folder.hpp"
#include "pipeline/shard_file.hpp"

namespace fovea::collection {

/// Fields of an index line that change when a photo keeps its row.
struct PhotoLine {
  std::string source;  // the raw name
  std::optional<io::FileStamp> file;
  std::string sha256;
};

class ShardBuilder {
 public:
  ShardBuilder(std::shared_ptr<const io::Folder> folder, const pipeline::OutputLayout& layout,
               std::uint64_t number, StopFlag stop)
      : layout_(layout), file_(std::move(folder), layout, number), stop_(stop) {}

  /// Appends a row with its bytes unchanged. Its index line gets the new row number, and the fields
  /// of `photo` unless that is null. `rows` must live until commit(). Throws Interrupted.
  void add(const StoredRows& rows, std::size_t row, const PhotoLine* photo = nullptr);

  [[nodiscard]] std::uint64_t rows() const { return count_; }

  /// Renames the files to their final names. Must be the last call.
  pipeline::FileRecord commit();

 private:
  void flush();

  pipeline::OutputLayout layout_;
  pipeline::ShardFile file_;
  StopFlag stop_;
  std::uint64_t count_ = 0;
  // The run of consecutive rows to be copied by flush().
  const StoredRows* run_rows_ = nullptr;
  std::size_t run_first_ = 0;
  std::size_t run_count_ = 0;
};

}  // namespace fovea::collection
