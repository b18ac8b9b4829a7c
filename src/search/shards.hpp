// Shards: presents the files of outputs of `fovea embed` as one array of rows.
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
  std::int64_t first = 0;  // the first row, numbered over all shards
  std::int64_t count = 0;
};

/// Rows in the format of a file: [count, dimension] of f16 or f32.
struct StoredRows {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t dimension = 0;

  /// Returns the rows from `row` on.
  [[nodiscard]] StoredRows subrows(std::int64_t row) const;
  /// Converts one row to float and stores its `dimension` numbers in `out`.
  void copy(std::int64_t row, std::span<float> out) const;
  /// Converts the first `count` rows to float [count, dimension].
  void copy_all(std::int64_t count, float* out) const;
};

/// The origin of an output, from its manifest.json; only `path` is set without one.
struct Origin {
  std::filesystem::path path;  // the path of the output, as given
  std::string model;
  std::string model_sha256;
  std::filesystem::path working_folder;  // the one in which `fovea embed` ran
  bool is_finished = true;
  std::string missing;  // such as "shard 3/8 is missing", for an incomplete merge
};

/// The rows of all files of the outputs (see fovea::Collection). Files are not kept open, because
/// their number may exceed the limit of the process. Reading a file throws when it has changed
/// since this object was created.
class Shards {
 public:
  explicit Shards(const std::vector<std::filesystem::path>& paths);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t dimension() const { return dimension_; }
  /// Returns the outputs, one per path.
  [[nodiscard]] const std::vector<Origin>& outputs() const { return outputs_; }
  [[nodiscard]] std::size_t output_index(std::int64_t row) const { return shard_of(row).output; }

  /// Returns how many rows to read at a time: `rows`, or fewer if they are large; at least 1.
  [[nodiscard]] std::int64_t rows_at_once(std::int64_t rows) const;
  /// Divides all rows into blocks of at most `rows_per_block` rows, each within one shard.
  [[nodiscard]] std::vector<RowBlock> blocks(std::int64_t rows_per_block) const;

  /// Returns the file and the row in it, which identify a row in messages.
  [[nodiscard]] std::string describe(std::int64_t row) const;

  /// Returns the first row of an output, and the number of its rows.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> row_range(std::size_t output) const;
  [[nodiscard]] IndexEntry entry(std::int64_t row) const;
  /// Returns the version of the file with this row.
  [[nodiscard]] io::File::Version version(std::int64_t row) const { return shard_of(row).version; }
  /// Returns the first row with this source, or -1.
  [[nodiscard]] std::int64_t find(const std::string& source) const;
  /// Returns the first row whose source ends in the file name `name` and for which `matches`
  /// returns true, or -1. `output`: the index of the output of the row.
  [[nodiscard]] std::int64_t find_file(
      const std::string& name,
      const std::function<bool(const std::string& source, std::size_t output)>& matches) const;

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

/// Keeps the files of shards open, up to a part of the limit of the process. Thread-safe.
class OpenShards {
 public:
  /// Throws fovea::Error naming a file that has changed since `shards` was made.
  explicit OpenShards(const Shards& shards);

 private:
  friend class RowReader;
  std::vector<io::File> files_;  // the files of the first shards
};

/// Reads blocks of rows. The file of the last block stays open. Not thread-safe: each thread needs
/// a reader.
class RowReader {
 public:
  /// `open` may be null; otherwise it must outlive the reader.
  explicit RowReader(const Shards& shards, const OpenShards* open = nullptr)
      : shards_(&shards), open_(open) {}

  /// Reads the rows of a block into `rows`, which grows as needed, and converts them to float
  /// [count, dimension]. Throws fovea::Error naming the file when it cannot be read or has changed.
  const float* read(const RowBlock& block, AlignedBuffer<float>& rows);
  /// Reads the rows of a block without conversion. The result is valid until the next call of any
  /// of these functions. Throws as above.
  [[nodiscard]] StoredRows read(const RowBlock& block);
  /// Reads one row and converts it to float. Throws as above.
  [[nodiscard]] std::vector<float> row(std::int64_t row);
  void row(std::int64_t row, std::span<float> out);

 private:
  [[nodiscard]] const io::File& open_file(std::size_t shard);

  const Shards* shards_;
  const OpenShards* open_;
  std::size_t shard_ = 0;
  std::optional<io::File> file_;  // the file of shard_, if `open_` does not have it
  AlignedBuffer<std::byte> bytes_;
};

}  // namespace fovea::search
