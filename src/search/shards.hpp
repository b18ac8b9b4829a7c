// Shards: makes the files of an embed output one array of rows, which is read part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "io/npy.hpp"
#include "search/source_index.hpp"

namespace fovea::search {

/// A range of rows within one shard.
struct RowBlock {
  std::size_t shard = 0;
  std::int64_t first = 0;  // the first row, counted through all shards
  std::int64_t count = 0;
};

/// fovea::Collection describes the files. None of them stays open, because there may be more than a
/// process may open. A file that has changed since this was made is refused when it is read.
class Shards {
 public:
  explicit Shards(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t dimension() const { return dimension_; }
  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] bool is_finished() const { return is_finished_; }

  /// `rows`, or fewer when those would take much memory; at least 1.
  [[nodiscard]] std::int64_t rows_at_once(std::int64_t rows) const;
  /// All rows in blocks of at most `rows_per_block`, none of which crosses a shard.
  [[nodiscard]] std::vector<RowBlock> blocks(std::int64_t rows_per_block) const;

  /// The file and the row in it, as messages name a row.
  [[nodiscard]] std::string describe(std::int64_t row) const;

  [[nodiscard]] std::string source(std::int64_t row) const;
  [[nodiscard]] std::int64_t find(const std::string& source) const;
  [[nodiscard]] std::int64_t find_file(
      const std::string& name, const std::function<bool(const std::string& source)>& is_it) const;

 private:
  friend class RowReader;
  struct Shard {
    std::filesystem::path path;
    io::File::Version version;
    io::NpyInfo array;
    SourceIndex index;
    std::int64_t first = 0;
  };
  void add(const std::filesystem::path& embeddings, const std::filesystem::path& index);
  void read_manifest(const std::filesystem::path& path);
  [[nodiscard]] const Shard& shard_of(std::int64_t row) const;

  std::vector<Shard> shards_;
  std::int64_t rows_ = 0;
  std::int64_t dimension_ = 0;
  std::string model_;
  bool is_finished_ = true;
};

/// Reads blocks of rows one after the other; the file of the last one stays open. Each thread has
/// its own.
class RowReader {
 public:
  explicit RowReader(const Shards& shards) : shards_(&shards) {}

  /// The rows of a block, converted: float [count, dimension], in `rows`, which grows as needed.
  /// Throws fovea::Error naming the file when it cannot be read or has changed.
  const float* read(const RowBlock& block, AlignedBuffer<float>& rows);
  /// One row, converted. Throws as the other does.
  [[nodiscard]] std::vector<float> row(std::int64_t row);

 private:
  void read(const RowBlock& block, float* rows);

  const Shards* shards_;
  std::size_t shard_ = 0;
  std::optional<io::File> file_;  // of shard_
  AlignedBuffer<Float16> halves_;
};

}  // namespace fovea::search
