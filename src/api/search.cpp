// Implements include/fovea/search.hpp with src/search.
#include "fovea/search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "api/duplicates.hpp"
#include "api/photo_files.hpp"
#include "api/read_photos.hpp"
#include "backends.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/thread_pool.hpp"
#include "fovea/encoder.hpp"
#include "fovea/heat.hpp"
#include "io/atomic_file.hpp"
#include "io/npy.hpp"
#include "io/text.hpp"
#include "search/dot_kernels.hpp"
#include "search/nearest.hpp"
#include "search/page.hpp"
#include "search/shards.hpp"

namespace fovea {
namespace fs = std::filesystem;
namespace {

// Rows per read, enough to amortise opening the file.
constexpr std::int64_t kRowsPerRead = 1024;
constexpr std::int64_t kMoreRows = 8;  // minimum increase when a search is repeated

int thread_count(int requested) {
  return requested > 0 ? requested : available_threads();
}

}  // namespace

struct Collection::Impl {
  Impl(const std::vector<fs::path>& paths, CollectionOptions given)
      : options(std::move(given)),
        shards(paths),
        files(shards, options.root),
        pool(thread_count(options.threads)),
        searcher(shards, pool, options.rows_in_memory, options.on_progress,
                 device_for_search(options.device),
                 {.on_device = options.on_device, .on_note = options.on_note}),
        outputs(paths) {
    for (const search::Origin& output : shards.outputs()) {
      is_finished = is_finished && output.is_finished;
      if (model.empty()) {
        std::error_code ignored;
        const fs::path local = output.working_folder / output.model;
        const bool is_local = !output.working_folder.empty() && fs::is_directory(local, ignored);
        model = is_local ? local.native() : output.model;
      }
    }
  }

  // Keeps only the first of the rows with the same file, and none if it is the file of `query_row`.
  // Such rows have equal embeddings, so files are compared only where scores are nearly equal.
  void drop_same_files(std::vector<Match>& matches, std::int64_t query_row) const {
    constexpr double kNearlyEqual = 1e-5;
    std::vector<Match> unique_matches;
    std::map<std::int64_t, std::string> identities;
    const auto identity = [&](std::int64_t row) -> const std::string& {
      const auto [entry, is_new] = identities.try_emplace(row);
      if (is_new) {
        entry->second = file_identity(files.load_photo(row)).file;
      }
      return entry->second;
    };
    for (const Match& match : matches) {
      bool is_same = query_row >= 0 && match.score > 1 - kNearlyEqual &&
                     identity(match.row) == identity(query_row);
      for (auto other = unique_matches.rbegin();
           !is_same && other != unique_matches.rend() && other->score - match.score < kNearlyEqual;
           ++other) {
        is_same = identity(match.row) == identity(other->row);
      }
      if (!is_same) {
        unique_matches.push_back(match);
      }
    }
    matches = std::move(unique_matches);
  }

  CollectionOptions options;
  search::Shards shards;
  PhotoFiles files;
  mutable ThreadPool pool;
  mutable search::Searcher searcher;
  std::vector<fs::path> outputs;
  std::string model;
  bool is_finished = true;
};

Collection::Collection(const std::vector<fs::path>& paths, CollectionOptions options)
    : impl_(std::make_unique<Impl>(paths, std::move(options))) {}
Collection::Collection(const fs::path& path, int threads)
    : Collection(std::vector{path},
                 CollectionOptions{.threads = threads, .root = {}, .on_progress = {}}) {}
Collection::~Collection() = default;
Collection::Collection(Collection&&) noexcept = default;
Collection& Collection::operator=(Collection&&) noexcept = default;

std::int64_t Collection::rows() const {
  return impl_->shards.rows();
}

std::int64_t Collection::dimension() const {
  return impl_->shards.dimension();
}

const std::string& Collection::model() const {
  return impl_->model;
}

std::vector<std::string> Collection::missing_shards() const {
  std::vector<std::string> messages;
  for (const search::Origin& output : impl_->shards.outputs()) {
    if (!output.missing.empty()) {
      messages.push_back(fmt::format("{}: {}", io::escape(output.path.native()), output.missing));
    }
  }
  return messages;
}

bool Collection::is_finished() const {
  return impl_->is_finished;
}

const std::vector<fs::path>& Collection::outputs() const {
  return impl_->outputs;
}

std::string Collection::source(std::int64_t row) const {
  return impl_->shards.entry(row).source;
}

fs::path Collection::file(std::int64_t row) const {
  return impl_->files.photo_path(source(row), impl_->shards.output_index(row));
}

Photo Collection::photo(std::int64_t row) const {
  Photo photo = impl_->files.load_photo(row);
  read_capture_date(photo);
  return photo;
}

std::optional<std::int64_t> Collection::find(const std::string& name) const {
  // Tries the name in its escaped form, as typed, and normalised (without "./" and the like).
  const std::string normalized = fs::path(name).lexically_normal().native();
  std::set<std::string> tried;  // avoids repeated attempts, which read whole indexes
  for (const std::string& text : {io::escape(name), name, io::escape(normalized)}) {
    if (!io::is_utf8(text) || !tried.insert(text).second) {
      continue;
    }
    if (const std::int64_t row = impl_->shards.find(text); row >= 0) {
      return row;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> Collection::find_file(const fs::path& path) const {
  // The path is made absolute first, because weakly_canonical() leaves a relative path to a missing
  // file relative. It becomes empty when a folder is unreadable.
  const auto resolve = [](const fs::path& file) {
    std::error_code error;
    return fs::weakly_canonical(fs::absolute(file), error);
  };
  const fs::path target = resolve(path);
  if (target.empty()) {
    return std::nullopt;
  }
  std::vector<fs::path> names{target.filename()};
  if (path.filename() != names.front()) {
    names.push_back(path.filename());
  }
  for (const fs::path& name : names) {
    const std::string text = io::escape(name.native());
    const auto is_same_file = [&](const std::string& source, std::size_t output) {
      return resolve(impl_->files.photo_path(source, output)) == target;
    };
    if (const std::int64_t row = text.empty() ? -1 : impl_->shards.find_file(text, is_same_file);
        row >= 0) {
      return row;
    }
  }
  return std::nullopt;
}

std::vector<float> Collection::embedding(std::int64_t row) const {
  return search::RowReader(impl_->shards).row(row);
}

void Collection::read_embeddings(std::int64_t first, std::int64_t count,
                                 std::span<float> out) const {
  if (first < 0 || count < 0 || first > rows() - count) {
    fail("cannot read {} rows from row {} on: the collection has {} rows", count, first, rows());
  }
  const auto width = static_cast<std::size_t>(dimension());
  if (out.size() != static_cast<std::size_t>(count) * width) {
    fail("{} rows of {} numbers do not fit an array of {} numbers", count, width, out.size());
  }
  search::RowReader reader(impl_->shards);
  for (const search::RowBlock& block :
       impl_->shards.blocks(impl_->shards.rows_at_once(kRowsPerRead))) {
    const std::int64_t begin = std::max(block.first, first);
    const std::int64_t end = std::min(block.first + block.count, first + count);
    if (begin < end) {
      reader.read(search::RowBlock{block.shard, begin, end - begin})
          .copy_all(end - begin, out.data() + static_cast<std::size_t>(begin - first) * width);
    }
  }
}

std::vector<std::vector<Match>> Collection::nearest(std::span<const float> queries, int k,
                                                    std::span<const std::int64_t> left_out) const {
  // Rows of the same file are recognised only after the search, which is then repeated for more
  // rows.
  const std::int64_t limit = std::min<std::int64_t>(rows(), std::numeric_limits<int>::max());
  for (std::int64_t requested_rows = k;;) {
    auto matches_per_query =
        impl_->searcher.nearest(queries, static_cast<int>(requested_rows), left_out);
    bool is_incomplete = false;
    for (std::size_t query = 0; query < matches_per_query.size(); ++query) {
      const std::size_t found_count = matches_per_query[query].size();
      impl_->drop_same_files(matches_per_query[query], left_out.empty() ? -1 : left_out[query]);
      is_incomplete =
          is_incomplete || (matches_per_query[query].size() < static_cast<std::size_t>(k) &&
                            found_count == static_cast<std::size_t>(requested_rows));
      matches_per_query[query].resize(
          std::min(matches_per_query[query].size(), static_cast<std::size_t>(k)));
    }
    if (!is_incomplete || requested_rows >= limit) {
      return matches_per_query;
    }
    requested_rows = std::min(limit, 2 * requested_rows + kMoreRows);
  }
}

Duplicates Collection::duplicates(const DuplicateOptions& options) const {
  return find_duplicates({impl_->shards, impl_->files, impl_->pool, impl_->options.on_progress},
                         options);
}

std::string source_name(const std::string& bytes) {
  return io::escape(bytes);
}

std::string source_bytes(const std::string& source) {
  return io::unescape(source);
}

std::string file_url(const Photo& photo) {
  const fs::path file = photo.is_member ? fs::path(containing_archive(photo.file)) : photo.file;
  return "file://" + percent_encode(fs::absolute(file).lexically_normal().native(), "/");
}

std::int64_t write_page(const fs::path& path, const Page& page, int threads, Encoder* encoder) {
  const std::vector<fs::path> originals = search::page_files(page);
  const int side = search::thumbnail_side(originals.size());
  ThreadPool pool(thread_count(threads));
  std::vector<search::Thumbnail> photo_thumbnails(originals.size());
  std::mutex mutex;
  search::HeatThumbnails heats;
  read_photos(originals, pool, [&](std::size_t index, const EncodedPhoto& photo) {
    photo_thumbnails[index] = search::make_thumbnail(photo.bytes, side, photo.decoding);
    if (!photo.error.empty()) {
      photo_thumbnails[index].error = photo.error;
    }
    const std::vector<std::size_t> sections = search::heat_sections(page, originals[index]);
    if (sections.empty() || !photo_thumbnails[index].error.empty()) {
      return;
    }
    if (encoder == nullptr) {
      fail("cannot draw heat maps on the page: no encoder was given");
    }
    std::vector<float> vectors;
    for (const std::size_t section : sections) {
      const std::vector<float>& vector = page.sections[section].heat;
      vectors.insert(vectors.end(), vector.begin(), vector.end());
    }
    const std::vector<HeatMap> maps =
        encoder->heat(vectors, {.kind = ImageInput::Kind::kEncoded, .data = photo.bytes},
                      photo.decoding.max_pixels);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      search::Thumbnail heat =
          search::make_thumbnail(photo.bytes, side, photo.decoding, &maps.at(i));
      const std::lock_guard lock(mutex);
      heats[{sections[i], originals[index]}] = std::move(heat);
    }
  });
  search::Thumbnails thumbnails;
  std::int64_t missing = 0;
  for (std::size_t index = 0; index < originals.size(); ++index) {
    missing += photo_thumbnails[index].error.empty() ? 0 : 1;
    thumbnails[originals[index]] = std::move(photo_thumbnails[index]);
  }
  io::write_file_atomically(
      path, search::render_page(page, thumbnails, fs::absolute(path).parent_path(), heats));
  return missing;
}

Vectors read_vectors(const fs::path& path) {
  const io::NpyFile file(path);
  const Shape& shape = file.shape();
  if ((shape.rank() != 1 && shape.rank() != 2) ||
      (file.dtype() != DType::kF32 && file.dtype() != DType::kF16)) {
    fail("{}: unsupported array of {} {}; expected f32 or f16 [n, dimension] or [dimension]",
         io::escape(path.native()), to_string(file.dtype()), shape.to_string());
  }
  Vectors vectors;
  vectors.rows = shape.rank() == 1 ? 1 : shape[0];
  vectors.dimension = shape[shape.rank() - 1];
  vectors.values.resize(static_cast<std::size_t>(shape.elements()));
  if (file.dtype() == DType::kF16) {
    std::vector<Float16> halves(vectors.values.size());
    file.read(0, std::span(halves));
    search::promote(halves.data(), halves.size(), vectors.values.data());
  } else {
    file.read(0, std::span(vectors.values));
  }
  return vectors;
}

}  // namespace fovea
