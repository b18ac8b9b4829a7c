// Shards: presents the files of embed outputs as one array of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "io/npy.hpp"
#include "search/source_index.hpp"

namespace fovea::search {

/// A range of rows within one shard.
struct RowBlock {
  std::size_t shard = 0;
  std::int64_t first = 0;  // the first row, counted through all shards
  std::int64_t count = 0;
};

/// Rows as they are in a file: [count, dimension] of f16 or f32.
struct StoredRows {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t dimension = 0;

  [[nodiscard]] StoredRows from(std::int64_t row) const;
  /// One row, converted, into `out` of `dimension` numbers.
  void copy(std::int64_t row, std::span<float> out) const;
  /// The first `count` rows, converted: float [count, dimension].
  void copy_all(std::int64_t count, float* out) const;
};

/// The origin of an output, from its manifest.json; empty without one.
struct Origin {
  std::filesystem::path path;  // of the output, as given
  std::string model;
  std::string model_sha256;
  std::filesystem::path working_folder;  // in which `fovea embed` ran
  bool is_finished = true;
  std::string missing;  // "shard 3/8 is missing" of one that was merged so
};

/// The rows of all files; fovea::Collection describes these. Files are not kept open, because there
/// may be more than the limit of a process. Reading a file throws when it has changed since the
/// object was created.
class Shards {
 public:
  explicit Shards(const std::vector<std::filesystem::path>& paths);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t dimension() const { return dimension_; }
  /// Returns the outputs, one per path.
  [[nodiscard]] const std::vector<Origin>& outputs() const { return outputs_; }
  [[nodiscard]] std::size_t output_of(std::int64_t row) const { return shard_of(row).output; }

  /// `rows`, or fewer when those would take much memory; at least 1.
  [[nodiscard]] std::int64_t rows_at_once(std::int64_t rows) const;
  /// All rows in blocks of at most `rows_per_block`, none of which crosses a shard.
  [[nodiscard]] std::vector<RowBlock> blocks(std::int64_t rows_per_block) const;

  /// The file and the row in it, as messages name a row.
  [[nodiscard]] std::string describe(std::int64_t row) const;

  /// The first row of an output, and how many it has.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range_of(std::size_t output) const;
  [[nodiscard]] IndexEntry entry(std::int64_t row) const;
  /// When the file that holds the row was written.
  [[nodiscard]] io::File::Version version(std::int64_t row) const { return shard_of(row).version; }
  [[nodiscard]] std::int64_t find(const std::string& source) const;
  /// The condition also gets the number of the output.
  [[nodiscard]] std::int64_t find_file(
      const std::string& name,
      const std::function<bool(const std::string& source, std::size_t output)>& is_it) const;

 private:
  friend class OpenShards;
  friend class RowReader;
  struct Shard {
    std::filesystem::path path;
    io::File::Version version;
    io::NpyInfo array;
    SourceIndex index;
    std::int64_t first = 0;
    std::size_t output = 0;
  };
  void open(const std::filesystem::path& path);
  void add(const std::filesystem::path& embeddings, const std::filesystem::path& index);
  void check_models() const;
  [[nodiscard]] const Shard& shard_of(std::int64_t row) const;

  std::vector<Shard> shards_;
  std::int64_t rows_ = 0;
  std::int64_t dimension_ = 0;
  std::vector<Origin> outputs_;
};

/// Keeps the files of shards open: all of them, or a part of the process's limit. Thread-safe.
class OpenShards {
 public:
  /// Throws fovea::Error naming a file that has changed since `shards` was made.
  explicit OpenShards(const Shards& shards);

 private:
  friend class RowReader;
  std::vector<io::File> files_;  // of the first shards
};

/// Reads blocks of rows one after the other; the file of the last one stays open. Each thread has
/// its own.
class RowReader {
 public:
  /// `open`, which must outlive this, may be null.
  explicit RowReader(const Shards& shards, const OpenShards* open = nullptr)
      : shards_(&shards), open_(open) {}

  /// The rows of a block, converted: float [count, dimension], in `rows`, which grows as needed.
  /// Throws fovea::Error naming the file when it cannot be read or has changed.
  const float* read(const RowBlock& block, AlignedBuffer<float>& rows);
  /// The same, as they are; they stay until the next call of any of these.
  [[nodiscard]] StoredRows read(const RowBlock& block);
  /// One row, converted. Throws as the others do.
  [[nodiscard]] std::vector<float> row(std::int64_t row);
  void row(std::int64_t row, std::span<float> out);

 private:
  [[nodiscard]] const io::File& file_of(std::size_t shard);

  const Shards* shards_;
  const OpenShards* open_;
  std::size_t shard_ = 0;
  std::optional<io::File> file_;  // of shard_, where `open_` does not have it
  AlignedBuffer<std::byte> bytes_;
};

}  // namespace fovea::search
