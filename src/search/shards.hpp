// Shards: the memory-mapped files of an embed output, as one array of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "io/npy.hpp"
#include "search/source_index.hpp"

namespace fovea::search {

/// A range of rows within one shard.
struct RowBlock {
  std::size_t shard = 0;
  std::int64_t first = 0;  // counted through all shards
  std::int64_t count = 0;
};

/// See fovea::Collection for what the files are.
class Shards {
 public:
  explicit Shards(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t dimension() const { return dimension_; }
  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] bool is_finished() const { return is_finished_; }

  /// All rows in blocks of at most `rows_per_block`, none of which crosses a shard.
  [[nodiscard]] std::vector<RowBlock> blocks(std::int64_t rows_per_block) const;

  /// The rows of a block as float [count, dimension]: where they are mapped, or converted into
  /// `scratch`, which grows as needed.
  [[nodiscard]] const float* floats(const RowBlock& block, AlignedBuffer<float>& scratch) const;
  /// One row, converted.
  [[nodiscard]] std::vector<float> row(std::int64_t row) const;
  /// The file and the row in it, as messages name a row.
  [[nodiscard]] std::string describe(std::int64_t row) const;

  [[nodiscard]] std::string source(std::int64_t row) const;
  [[nodiscard]] std::int64_t find(const std::string& source) const;
  [[nodiscard]] std::int64_t find_file(
      const std::string& name, const std::function<bool(const std::string& source)>& is_it) const;

 private:
  struct Shard {
    io::NpyFile embeddings;
    SourceIndex index;
    ConstTensorView view;
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

}  // namespace fovea::search
