// Opens outputs of `fovea embed`, and checks that their files belong together.
#include "search/shards.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "search/dot_kernels.hpp"

namespace fovea::search {
namespace fs = std::filesystem;
namespace {

std::string display_path(const fs::path& path) {
  return io::escape(path.native());
}

constexpr std::string_view kPrefix = "embeddings-";
constexpr char kManifest[] = "manifest.json";

// Throws an error that says why a folder without arrays of embeddings cannot be searched.
[[noreturn]] void fail_without_embeddings(const fs::path& folder, bool has_text) {
  if (has_text) {
    fail(
        "{}: holds embeddings as text, but the search reads .npy: embed them by "
        "`fovea embed --format npy`",
        display_path(folder));
  }
  if (io::exists(folder / kManifest)) {
    const nlohmann::json manifest = io::parse_json_object(io::read_small_file(folder / kManifest),
                                                          display_path(folder / kManifest));
    const nlohmann::json::json_pointer finished_key("/finished");
    const nlohmann::json::json_pointer rows_key("/counts/rows");
    if (manifest.contains(finished_key) && manifest.at(finished_key) == false) {
      const auto rows = manifest.contains(rows_key) ? manifest.at(rows_key) : nlohmann::json(0);
      fail(
          "{}: the job is not finished: {} row{} so far, none in a complete file; run the embed "
          "command again",
          display_path(folder), rows.dump(), rows == 1 ? "" : "s");
    }
  }
  fail("{}: holds no embeddings-*.npy; give the output folder of `fovea embed`",
       display_path(folder));
}

// Returns the files such as "embeddings-00003.npy" of a folder, in the order of their numbers.
std::vector<fs::path> embedding_files(const fs::path& folder) {
  std::vector<fs::path> files;
  bool has_text = false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().native();
    if (name.starts_with(kPrefix)) {
      if (name.ends_with(".npy")) {
        files.push_back(entry.path());
      }
      has_text |= name.find(".jsonl") != std::string::npos;
    }
  }
  if (error) {
    fail("{}: cannot read the folder: {}", display_path(folder), error.message());
  }
  if (files.empty()) {
    fail_without_embeddings(folder, has_text);
  }
  // Longer numbers are larger; numbers of equal length are compared as text.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename().native();
    const std::string right = b.filename().native();
    return std::pair(left.size(), left) < std::pair(right.size(), right);
  });
  return files;
}

fs::path index_path(const fs::path& embeddings) {
  std::string number = embeddings.stem().native().substr(kPrefix.size());
  return embeddings.parent_path() / ("index-" + number + ".jsonl");
}

void read_manifest(const fs::path& path, Origin& origin) {
  const nlohmann::json manifest =
      io::parse_json_object(io::read_small_file(path), display_path(path));
  try {
    const nlohmann::json& model = manifest.at("model");
    origin.model = io::unescape(model.at("name").get<std::string>());
    origin.model_sha256 = model.value("sha256", "");
    origin.working_folder = io::unescape(manifest.value("working_folder", ""));
    origin.is_finished = manifest.at("finished").get<bool>();
    if (const nlohmann::json::json_pointer list("/shard/missing"); manifest.contains(list)) {
      const auto numbers = manifest.at(list).get<std::vector<std::uint64_t>>();
      origin.missing = missing_shards_words(
          numbers, numbers.size(), manifest.at("shard").at("merged_from").get<std::uint64_t>());
    }
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not the manifest of an embed output: {}", display_path(path), error.what());
  } catch (const Error& error) {
    fail("{}: the model's name or the working folder: {}", display_path(path), error.what());
  }
}

}  // namespace

Shards::Shards(const std::vector<fs::path>& paths) {
  if (paths.empty()) {
    fail("no outputs to search in were given");
  }
  for (const fs::path& path : paths) {
    open(path);
  }
  check_models();
}

void Shards::open(const fs::path& path) {
  std::error_code ignored;
  for (const Origin& other : outputs_) {
    if (fs::equivalent(path, other.path, ignored)) {
      fail("the same output is given twice: {} and {}", display_path(other.path),
           display_path(path));
    }
  }
  outputs_.emplace_back().path = path;
  if (fs::is_directory(path, ignored)) {
    for (const fs::path& file : embedding_files(path)) {
      add(file, index_path(file));
    }
    if (io::exists(path / kManifest)) {
      read_manifest(path / kManifest, outputs_.back());
    }
    return;
  }
  if (!io::exists(path)) {
    fail("{}: no such folder or file; give the output of `fovea embed`", display_path(path));
  }
  fs::path index = path;
  add(path, index.replace_extension(".index.jsonl"));
}

// Embeddings of different models cannot be compared, even when they have the same dimension.
void Shards::check_models() const {
  const Origin* first = nullptr;
  for (const Origin& output : outputs_) {
    if (output.model_sha256.empty()) {
      continue;  // the model is unknown
    }
    if (first != nullptr && first->model_sha256 != output.model_sha256) {
      fail(
          "{} was made with the model {} (sha256 {:.12}), but {} with {} (sha256 {:.12}): "
          "embeddings of different models cannot be compared",
          display_path(first->path), io::escape(first->model), first->model_sha256,
          display_path(output.path), io::escape(output.model), output.model_sha256);
    }
    first = &output;
  }
}

void Shards::add(const fs::path& embeddings, const fs::path& index) {
  if (!io::exists(index)) {
    fail("{}: the index {} is missing", display_path(embeddings), display_path(index.filename()));
  }
  const io::NpyFile file(embeddings);
  const Shape& shape = file.shape();
  if (shape.rank() == 3) {
    fail(
        "{}: the file holds features of patches, {} rows of [{}, {}], which cannot be searched; "
        "give an "
        "output of embeddings: `fovea embed` without --features",
        display_path(embeddings), shape[0], shape[1], shape[2]);
  }
  if (shape.rank() != 2 || (shape[1] < 1) ||
      (file.dtype() != DType::kF32 && file.dtype() != DType::kF16)) {
    fail("{}: unsupported array of {} {}; expected f32 or f16 [rows, dimension]",
         display_path(embeddings), to_string(file.dtype()), shape.to_string());
  }
  Shard shard{embeddings, file.file().version(), file.info(), SourceIndex(index, shape[0]),
              rows_,      outputs_.size() - 1};
  if (shape[0] != shard.index.rows()) {
    fail("{}: the array has {} rows, but its index {} has {} lines", display_path(embeddings),
         shape[0], display_path(index.filename()), shard.index.rows());
  }
  if (!shards_.empty() && shape[1] != dimension_) {
    fail(
        "{}: the embeddings have {} numbers, but those of {} have {}: the files are of different "
        "models",
        display_path(embeddings), shape[1], display_path(shards_.front().path), dimension_);
  }
  dimension_ = shape[1];
  rows_ += shape[0];
  shards_.push_back(std::move(shard));
}

std::int64_t Shards::rows_at_once(std::int64_t rows) const {
  constexpr std::int64_t kMaxFloats = 1 << 20;
  return std::clamp<std::int64_t>(kMaxFloats / dimension_, 1, rows);
}

std::vector<RowBlock> Shards::blocks(std::int64_t rows_per_block) const {
  std::vector<RowBlock> blocks;
  for (std::size_t index = 0; index < shards_.size(); ++index) {
    const Shard& shard = shards_[index];
    const std::int64_t end = shard.first + shard.array.shape[0];
    for (std::int64_t first = shard.first; first < end; first += rows_per_block) {
      blocks.push_back({index, first, std::min(rows_per_block, end - first)});
    }
  }
  return blocks;
}

const Shards::Shard& Shards::shard_of(std::int64_t row) const {
  if (row < 0 || row >= rows_) {
    fail("row {} is out of range [0, {})", row, rows_);
  }
  const auto next_shard =
      std::upper_bound(shards_.begin(), shards_.end(), row,
                       [](std::int64_t number, const Shard& s) { return number < s.first; });
  return *std::prev(next_shard);
}

std::string Shards::describe(std::int64_t row) const {
  const Shard& shard = shard_of(row);
  return fmt::format("{}, row {}", display_path(shard.path), row - shard.first);
}

std::pair<std::int64_t, std::int64_t> Shards::row_range(std::size_t output) const {
  const auto [first, last] = std::ranges::equal_range(shards_, output, {}, &Shard::output);
  std::int64_t rows = 0;
  for (auto shard = first; shard != last; ++shard) {
    rows += shard->array.shape[0];
  }
  return {first == last ? 0 : first->first, rows};
}

IndexEntry Shards::entry(std::int64_t row) const {
  const Shard& shard = shard_of(row);
  return shard.index.entry(row - shard.first);
}

std::int64_t Shards::find(const std::string& source) const {
  for (const Shard& shard : shards_) {
    if (const std::int64_t row = shard.index.find(source); row >= 0) {
      return shard.first + row;
    }
  }
  return -1;
}

std::int64_t Shards::find_file(
    const std::string& name,
    const std::function<bool(const std::string& source, std::size_t output)>& matches) const {
  for (const Shard& shard : shards_) {
    const auto matches_here = [&](const std::string& source) {
      return matches(source, shard.output);
    };
    if (const std::int64_t row = shard.index.find_file(name, matches_here); row >= 0) {
      return shard.first + row;
    }
  }
  return -1;
}

OpenShards::OpenShards(const Shards& shards) {
  // A quarter of the limit on open files of the process, which is 256 by default.
  const std::size_t limit = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_OPEN_MAX))) / 4;
  files_.reserve(std::min(limit, shards.shards_.size()));
  for (const Shards::Shard& shard : shards.shards_) {
    io::File file(shard.path, shard.version);
    if (files_.size() < limit) {
      files_.push_back(std::move(file));
    }
  }
}

StoredRows StoredRows::subrows(std::int64_t row) const {
  const auto bytes = static_cast<std::size_t>(row * dimension) * size_of(dtype);
  return {data + bytes, dtype, dimension};
}

void StoredRows::copy(std::int64_t row, std::span<float> out) const {
  subrows(row).copy_all(1, out.data());
}

void StoredRows::copy_all(std::int64_t count, float* out) const {
  const auto numbers = static_cast<std::size_t>(count * dimension);
  if (dtype == DType::kF16) {
    promote(reinterpret_cast<const Float16*>(data), numbers, out);
  } else {
    std::copy_n(reinterpret_cast<const float*>(data), numbers, out);
  }
}

std::vector<float> RowReader::row(std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(shards_->dimension_));
  this->row(row, values);
  return values;
}

void RowReader::row(std::int64_t row, std::span<float> out) {
  const auto shard = static_cast<std::size_t>(&shards_->shard_of(row) - shards_->shards_.data());
  read({shard, row, 1}).copy(0, out);
}

const float* RowReader::read(const RowBlock& block, AlignedBuffer<float>& rows) {
  const StoredRows stored = read(block);
  float* const out = ensure_size(rows, block.count * shards_->dimension_);
  stored.copy_all(block.count, out);
  return out;
}

const io::File& RowReader::open_file(std::size_t shard) {
  if (open_ != nullptr && shard < open_->files_.size()) {
    return open_->files_[shard];
  }
  if (!file_ || shard_ != shard) {
    file_.emplace(shards_->shards_[shard].path, shards_->shards_[shard].version);
    shard_ = shard;
  }
  return *file_;
}

StoredRows RowReader::read(const RowBlock& block) {
  const Shards::Shard& shard = shards_->shards_[block.shard];
  const io::File& file = open_file(block.shard);
  const std::size_t row_bytes =
      static_cast<std::size_t>(shards_->dimension_) * size_of(shard.array.dtype);
  const std::size_t bytes = static_cast<std::size_t>(block.count) * row_bytes;
  std::byte* const data = ensure_size(bytes_, bytes);
  const auto first = static_cast<std::uint64_t>(block.first - shard.first);
  file.read_at(shard.array.data_offset + first * row_bytes, std::span(data, bytes));
  return {data, shard.array.dtype, shards_->dimension_};
}

}  // namespace fovea::search
