// Opening an embed output: which files belong together, and whether they agree.
#include "search/shards.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/text.hpp"
#include "search/dot_kernels.hpp"

namespace fovea::search {
namespace fs = std::filesystem;
namespace {

std::string shown(const fs::path& path) {
  return io::escape(path.native());
}

constexpr std::string_view kPrefix = "embeddings-";

// Files like "embeddings-00003.npy", in order of their numbers.
std::vector<fs::path> embedding_files(const fs::path& folder) {
  std::vector<fs::path> files;
  bool has_text = false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().native();
    if (name.starts_with(kPrefix) && name.ends_with(".npy")) {
      files.push_back(entry.path());
    }
    has_text |= name.starts_with(kPrefix) && name.ends_with(".jsonl");
  }
  if (error) {
    fail("{}: cannot read the folder: {}", shown(folder), error.message());
  }
  if (files.empty() && has_text) {
    fail(
        "{}: holds embeddings as text (--format jsonl), but the search reads .npy: embed with "
        "--format npy",
        shown(folder));
  }
  if (files.empty()) {
    fail("{}: holds no embeddings-*.npy; give the output folder of `fovea embed`", shown(folder));
  }
  // Longer numbers are larger; equally long ones compare as text.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename().native();
    const std::string right = b.filename().native();
    return std::pair(left.size(), left) < std::pair(right.size(), right);
  });
  return files;
}

fs::path index_of(const fs::path& embeddings) {
  std::string number = embeddings.stem().native().substr(kPrefix.size());
  return embeddings.parent_path() / ("index-" + number + ".jsonl");
}

}  // namespace

Shards::Shards(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const fs::path& file : embedding_files(path)) {
      add(file, index_of(file));
    }
    if (io::exists(path / "manifest.json")) {
      read_manifest(path / "manifest.json");
    }
    return;
  }
  if (!io::exists(path)) {
    fail("{}: there is no such folder or file; give the output of `fovea embed`", shown(path));
  }
  fs::path index = path;
  add(path, index.replace_extension(".index.jsonl"));
}

void Shards::add(const fs::path& embeddings, const fs::path& index) {
  if (!io::exists(index)) {
    fail("{}: its index {} is missing", shown(embeddings), shown(index.filename()));
  }
  const io::NpyFile file(embeddings);
  const Shape& shape = file.shape();
  if (shape.rank() != 2 || (shape[1] < 1) ||
      (file.dtype() != DType::kF32 && file.dtype() != DType::kF16)) {
    fail("{}: unsupported array of {} {}; expected f32 or f16 [rows, dimension]", shown(embeddings),
         to_string(file.dtype()), shape.to_string());
  }
  Shard shard{embeddings, file.file().version(), file.info(), SourceIndex(index), rows_};
  if (shape[0] != shard.index.rows()) {
    fail("{}: has {} rows, but its index {} has {} lines", shown(embeddings), shape[0],
         shown(index.filename()), shard.index.rows());
  }
  if (!shards_.empty() && shape[1] != dimension_) {
    fail(
        "{}: its embeddings have {} numbers, but those of {} have {}: the files are of different "
        "models",
        shown(embeddings), shape[1], shown(shards_.front().path.filename()), dimension_);
  }
  dimension_ = shape[1];
  rows_ += shape[0];
  shards_.push_back(std::move(shard));
}

void Shards::read_manifest(const fs::path& path) {
  const std::string text = io::read_small_file(path);
  try {
    const nlohmann::json manifest = nlohmann::json::parse(text);
    model_ = io::unescape(manifest.at("model").at("name").get<std::string>());
    is_finished_ = manifest.at("finished").get<bool>();
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not the manifest of an embed output: {}", shown(path), error.what());
  } catch (const Error& error) {
    fail("{}: the model's name: {}", shown(path), error.what());
  }
}

std::int64_t Shards::rows_at_once(std::int64_t rows) const {
  constexpr std::int64_t kMostFloats = 1 << 20;
  return std::clamp<std::int64_t>(kMostFloats / dimension_, 1, rows);
}

std::vector<RowBlock> Shards::blocks(std::int64_t rows_per_block) const {
  std::vector<RowBlock> list;
  for (std::size_t index = 0; index < shards_.size(); ++index) {
    const Shard& shard = shards_[index];
    const std::int64_t end = shard.first + shard.array.shape[0];
    for (std::int64_t first = shard.first; first < end; first += rows_per_block) {
      list.push_back({index, first, std::min(rows_per_block, end - first)});
    }
  }
  return list;
}

const Shards::Shard& Shards::shard_of(std::int64_t row) const {
  if (row < 0 || row >= rows_) {
    fail("row {} is out of range [0, {})", row, rows_);
  }
  const auto after = std::upper_bound(shards_.begin(), shards_.end(), row,
                                      [](std::int64_t at, const Shard& s) { return at < s.first; });
  return *std::prev(after);
}

std::string Shards::describe(std::int64_t row) const {
  const Shard& shard = shard_of(row);
  return fmt::format("{}, row {}", shown(shard.path), row - shard.first);
}

std::string Shards::source(std::int64_t row) const {
  const Shard& shard = shard_of(row);
  return shard.index.source(row - shard.first);
}

std::int64_t Shards::find(const std::string& source) const {
  for (const Shard& shard : shards_) {
    if (const std::int64_t row = shard.index.find(source); row >= 0) {
      return shard.first + row;
    }
  }
  return -1;
}

std::int64_t Shards::find_file(const std::string& name,
                               const std::function<bool(const std::string& source)>& is_it) const {
  for (const Shard& shard : shards_) {
    if (const std::int64_t row = shard.index.find_file(name, is_it); row >= 0) {
      return shard.first + row;
    }
  }
  return -1;
}

std::vector<float> RowReader::row(std::int64_t row) {
  const auto shard = static_cast<std::size_t>(&shards_->shard_of(row) - shards_->shards_.data());
  std::vector<float> values(static_cast<std::size_t>(shards_->dimension_));
  read({shard, row, 1}, values.data());
  return values;
}

const float* RowReader::read(const RowBlock& block, AlignedBuffer<float>& rows) {
  const auto count = static_cast<std::size_t>(block.count * shards_->dimension_);
  if (rows.size() < count) {
    rows = AlignedBuffer<float>(count);
  }
  read(block, rows.data());
  return rows.data();
}

void RowReader::read(const RowBlock& block, float* rows) {
  const Shards::Shard& shard = shards_->shards_[block.shard];
  if (!file_ || shard_ != block.shard) {
    file_.emplace(shard.path, shard.version);
    shard_ = block.shard;
  }
  const auto count = static_cast<std::size_t>(block.count * shards_->dimension_);
  const auto first = static_cast<std::uint64_t>((block.first - shard.first) * shards_->dimension_);
  const std::uint64_t offset = shard.array.data_offset + first * size_of(shard.array.dtype);
  if (shard.array.dtype == DType::kF32) {
    file_->read_at(offset, std::as_writable_bytes(std::span(rows, count)));
    return;
  }
  if (halves_.size() < count) {
    halves_ = AlignedBuffer<Float16>(count);
  }
  const std::span halves = halves_.span().first(count);
  file_->read_at(offset, std::as_writable_bytes(halves));
  promote(halves.data(), count, rows);
}

}  // namespace fovea::search
