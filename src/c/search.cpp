// fovea_collection over the public Collection.
#include "fovea/c/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "c/lifetime.hpp"
#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/search.hpp"

namespace fovea::c {

/// A search that can be stopped by its handler or by the end of the process.
class SearchRun {
 public:
  SearchRun(fovea_search_handler handler, void* context) : handler_(handler), context_(context) {}

  /// Reports progress. Throws when the search must stop. Not thread-safe.
  void report(std::int64_t done, std::int64_t total) {
    if (stop_) {
      fail("the search was ended, because the process is ending");
    }
    const auto now = std::chrono::steady_clock::now();
    if (handler_ == nullptr || (done < total && now - reported_ < kBetweenReports)) {
      return;
    }
    reported_ = now;
    if (handler_(done, total, context_) != 0) {
      throw Interrupted();
    }
  }

 private:
  fovea_search_handler handler_;
  void* context_;
  std::atomic<bool> stop_ = false;
  Activity activity_{&stop_};
  std::chrono::steady_clock::time_point reported_{};
};

namespace {

thread_local std::string found_source;
thread_local std::string found_path;
thread_local Photo found_photo;

}  // namespace
}  // namespace fovea::c

struct fovea_collection {
 public:
  const fovea::c::Process process;

  fovea_collection(const std::vector<std::filesystem::path>& outputs, const char* root,
                   std::int32_t threads, const char* device)
      : collection_(
            outputs,
            {.threads = threads,
             .root = root == nullptr ? "" : root,
             .on_progress = [this](std::int64_t done,
                                   std::int64_t total) { running_->report(done, total); },
             .device = device,
             .on_note = [](std::string_view note) { fovea::c::send_note(std::string(note)); }}) {}

  [[nodiscard]] const fovea::Collection& get() const { return collection_; }

  /// Searches one at a time, because the collection has only one progress callback.
  [[nodiscard]] std::vector<std::vector<fovea::Match>> nearest(
      std::span<const float> queries, int k, std::span<const std::int64_t> left_out,
      fovea::c::SearchRun& run) const {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, fovea::c::kBetweenReports,
                              [this] { return running_ == nullptr; })) {
      run.report(0, collection_.rows());
    }
    running_ = &run;
    lock.unlock();
    const auto end_turn = [this](fovea::c::SearchRun* /*run*/) {
      {
        const std::lock_guard turn_lock(mutex_);
        running_ = nullptr;
      }
      changed_.notify_all();
    };
    const std::unique_ptr<fovea::c::SearchRun, decltype(end_turn)> turn(&run, end_turn);
    return collection_.nearest(queries, k, left_out);
  }

 private:
  fovea::Collection collection_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable fovea::c::SearchRun* running_ = nullptr;  // the search that is running, or null
};

namespace fovea::c {
namespace {

const Collection& open_collection(const fovea_collection* collection) {
  require_pointer(collection, "collection");
  require_this_process(collection->process, "this collection", kOpenThere);
  return collection->get();
}

}  // namespace
}  // namespace fovea::c

using fovea::c::guarded;
using fovea::c::open_collection;
using fovea::c::query_or;
using fovea::c::require_pointer;
using fovea::c::require_pointers;

fovea_status fovea_collection_open(const char* const* outputs, size_t count, const char* root,
                                   int32_t threads, fovea_collection** collection) {
  return fovea_collection_open_on(outputs, count, root, threads, "cpu", collection);
}

fovea_status fovea_collection_open_on(const char* const* outputs, size_t count, const char* root,
                                      int32_t threads, const char* device,
                                      fovea_collection** collection) {
  return guarded([&] {
    require_pointers({{device, "device"}, {outputs, "outputs"}, {collection, "collection"}});
    if (count == 0) {
      fovea::fail("no output was given; a collection needs at least one output");
    }
    if (threads < 0) {
      fovea::fail("invalid number of threads {}; it must be 0 or more", threads);
    }
    std::vector<std::filesystem::path> paths;
    for (const char* const output : std::span(outputs, count)) {
      require_pointer(output, "a path in `outputs`");
      paths.emplace_back(output);
    }
    const fovea::c::Activity activity;
    *collection = std::make_unique<fovea_collection>(paths, root, threads, device).release();
  });
}

void fovea_collection_free(fovea_collection* collection) {
  fovea::c::free_here(collection);
}

int64_t fovea_collection_rows(const fovea_collection* collection) {
  return query_or(collection, 0, [](auto& object) { return object.get().rows(); });
}

int64_t fovea_collection_dimension(const fovea_collection* collection) {
  return query_or(collection, 0, [](auto& object) { return object.get().dimension(); });
}

const char* fovea_collection_model(const fovea_collection* collection) {
  return query_or(collection, "", [](auto& object) { return object.get().model().c_str(); });
}

int32_t fovea_collection_is_finished(const fovea_collection* collection) {
  return query_or(collection, 0, [](auto& object) { return object.get().is_finished() ? 1 : 0; });
}

fovea_status fovea_collection_source(const fovea_collection* collection, int64_t row,
                                     const char** source, const char** path) {
  return guarded([&] {
    const fovea::Collection& opened = open_collection(collection);
    require_pointers({{source, "source"}, {path, "path"}});
    std::string name = opened.source(row);
    fovea::c::found_path = opened.file(row).native();
    fovea::c::found_source = std::move(name);
    *source = fovea::c::found_source.c_str();
    *path = fovea::c::found_path.c_str();
  });
}

fovea_status fovea_collection_photo(const fovea_collection* collection, int64_t row,
                                    fovea_photo* photo) {
  return guarded([&] {
    const fovea::Collection& opened = open_collection(collection);
    require_pointer(photo, "photo");
    fovea::c::found_photo = opened.photo(row);
    const fovea::Photo& entry = fovea::c::found_photo;
    *photo = {.source = entry.source.c_str(),
              .path = entry.file.c_str(),
              .captured = entry.captured.c_str(),
              .error = entry.error.c_str(),
              .output = static_cast<std::int64_t>(entry.output),
              .bytes = entry.bytes.value_or(-1),
              .modified = entry.modified.value_or(0),
              .has_modified = entry.modified.has_value() ? 1 : 0,
              .width = entry.width,
              .height = entry.height,
              .is_member = entry.is_member ? 1 : 0,
              .has_changed = entry.has_changed ? 1 : 0};
  });
}

fovea_status fovea_collection_find(const fovea_collection* collection, const char* name,
                                   int64_t* row) {
  return guarded([&] {
    const fovea::Collection& opened = open_collection(collection);
    require_pointers({{name, "name"}, {row, "row"}});
    const auto named_row = opened.find(name);
    *row = (named_row ? named_row : opened.find_file(name)).value_or(-1);
  });
}

fovea_status fovea_collection_embeddings(const fovea_collection* collection, int64_t first,
                                         int64_t count, float* out) {
  return guarded([&] {
    const fovea::Collection& opened = open_collection(collection);
    if (count > 0) {
      require_pointer(out, "out");
    }
    // read_embeddings() throws for an invalid number of rows before it accesses `out`.
    const auto numbers = count < 0 || count > opened.rows() ? 0 : count * opened.dimension();
    opened.read_embeddings(first, count, std::span(out, static_cast<std::size_t>(numbers)));
  });
}

fovea_status fovea_collection_nearest(const fovea_collection* collection, const float* queries,
                                      size_t count, int32_t k, const int64_t* left_out,
                                      fovea_search_handler handler, void* context, int64_t* rows,
                                      double* scores) {
  return guarded([&] {
    const fovea::Collection& opened = open_collection(collection);
    if (count > 0) {
      require_pointers({{queries, "queries"}, {rows, "rows"}, {scores, "scores"}});
    }
    const std::size_t numbers =
        fovea::c::value_count(count, static_cast<std::size_t>(opened.dimension()), "queries");
    fovea::c::SearchRun run(handler, context);
    const auto matches = collection->nearest({queries, numbers}, k,
                                             {left_out, left_out == nullptr ? 0 : count}, run);
    const auto match_count = static_cast<std::size_t>(k);
    for (std::size_t query = 0; query < count; ++query) {
      for (std::size_t rank = 0; rank < match_count; ++rank) {
        const bool has_match = rank < matches[query].size();
        rows[query * match_count + rank] = has_match ? matches[query][rank].row : -1;
        scores[query * match_count + rank] =
            has_match ? matches[query][rank].score : std::numeric_limits<double>::quiet_NaN();
      }
    }
  });
}

fovea_status fovea_queries_combine(const float* queries, size_t count, int64_t dimension,
                                   const float* terms, const double* weights, size_t term_count,
                                   float* out) {
  return guarded([&] {
    if (count > 0) {
      require_pointers({{queries, "queries"}, {out, "out"}});
    }
    if (term_count > 0) {
      require_pointers({{terms, "terms"}, {weights, "weights"}});
    }
    const auto width = static_cast<std::size_t>(std::max<std::int64_t>(dimension, 1));
    static_cast<void>(fovea::c::value_count(std::max(count, term_count), width, "vectors"));
    std::vector<fovea::QueryTerm> query_terms(term_count);
    for (std::size_t term = 0; term < term_count; ++term) {
      query_terms[term] = {.vector = {terms + term * width, width}, .weight = weights[term]};
    }
    std::ranges::copy(fovea::combine_queries({queries, count * width}, dimension, query_terms),
                      out);
  });
}
