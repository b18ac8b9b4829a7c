// include/fovea/search.hpp over src/search.
#include "fovea/search.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "api/thumbnails.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
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

int thread_count(int asked) {
  return asked > 0 ? asked : available_threads();
}

}  // namespace

struct Collection::Impl {
  Impl(const fs::path& path, int threads) : shards(path), pool(thread_count(threads)) {}

  search::Shards shards;
  mutable ThreadPool pool;
};

Collection::Collection(const fs::path& path, int threads)
    : impl_(std::make_unique<Impl>(path, threads)) {}
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
  return impl_->shards.model();
}

bool Collection::is_finished() const {
  return impl_->shards.is_finished();
}

std::string Collection::source(std::int64_t row) const {
  return impl_->shards.source(row);
}

std::optional<std::int64_t> Collection::find(const std::string& name) const {
  // Tries the name as typed, as typed in the escaped form, and without parts such as "./".
  const std::string plain = fs::path(name).lexically_normal().native();
  std::set<std::string> tried;  // because a search reads whole indexes
  for (const std::string& text : {io::escape(name), name, io::escape(plain)}) {
    if (!io::is_utf8(text) || !tried.insert(text).second) {
      continue;
    }
    if (const std::int64_t row = impl_->shards.find(text); row >= 0) {
      return row;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> Collection::find_file(const fs::path& path,
                                                  const fs::path& root) const {
  // The path is made absolute first, because a relative one that leads nowhere would stay relative.
  // It becomes empty when a folder is unreadable.
  const auto place = [](const fs::path& file) {
    std::error_code error;
    return fs::weakly_canonical(fs::absolute(file), error);
  };
  const fs::path wanted = place(path);
  if (wanted.empty()) {
    return std::nullopt;
  }
  std::vector<fs::path> names{wanted.filename()};
  if (path.filename() != names.front()) {
    names.push_back(path.filename());
  }
  for (const fs::path& name : names) {
    const std::string text = io::escape(name.native());
    const auto is_it = [&](const std::string& source) {
      return place(root / io::unescape(source)) == wanted;
    };
    if (const std::int64_t row = text.empty() ? -1 : impl_->shards.find_file(text, is_it);
        row >= 0) {
      return row;
    }
  }
  return std::nullopt;
}

std::vector<float> Collection::embedding(std::int64_t row) const {
  return search::RowReader(impl_->shards).row(row);
}

std::vector<std::vector<Match>> Collection::nearest(std::span<const float> queries, int k,
                                                    std::span<const std::int64_t> left_out) const {
  return search::nearest(impl_->shards, impl_->pool, queries, k, left_out);
}

std::vector<std::vector<Match>> Collection::duplicates(double threshold) const {
  return search::duplicates(impl_->shards, impl_->pool, threshold);
}

std::string source_name(const std::string& bytes) {
  return io::escape(bytes);
}

std::int64_t write_page(const fs::path& path, const Page& page, const fs::path& root, int threads) {
  PicturePaths originals;
  const auto add = [&](const PagePicture& picture) {
    originals[search::thumbnail_key(picture)] =
        picture.file.empty() ? root / io::unescape(picture.source) : picture.file;
  };
  for (const PageSection& section : page.sections) {
    if (section.query) {
      add(*section.query);
    }
    for (const PagePicture& picture : section.pictures) {
      add(picture);
    }
  }
  ThreadPool pool(thread_count(threads));
  const std::map<std::string, search::Thumbnail> thumbnails = make_thumbnails(originals, pool);
  io::write_file_atomically(path, search::render_page(page, thumbnails));
  return std::count_if(thumbnails.begin(), thumbnails.end(),
                       [](const auto& entry) { return !entry.second.error.empty(); });
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
