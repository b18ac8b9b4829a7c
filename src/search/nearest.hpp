// Exact nearest neighbours of queries, found in passes over all rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/thread_pool.hpp"
#include "fovea/search.hpp"
#include "search/queries.hpp"
#include "search/row_codes.hpp"
#include "search/row_scanner.hpp"
#include "search/shards.hpp"

namespace fovea::search {

/// Callbacks of a search, as in CollectionOptions.
struct SearchListeners {
  std::function<void(std::string_view)> on_device;
  std::function<void(std::string_view)> on_note;
};

/// Searches in shards that do not change. Thread-safe; searches run one after another.
class Searcher {
 public:
  /// All references must outlive the searcher.
  Searcher(const Shards& shards, ThreadPool& pool, RowsInMemory in_memory,
           const SearchProgress& progress, OtherDevice other = {}, SearchListeners listeners = {})
      : shards_(shards),
        pool_(pool),
        in_memory_(in_memory),
        progress_(progress),
        other_(std::move(other)),
        listeners_(std::move(listeners)) {}

  /// Returns the nearest rows of each query, as Collection::nearest() does.
  [[nodiscard]] std::vector<std::vector<Match>> nearest(std::span<const float> vectors, int k,
                                                        std::span<const std::int64_t> left_out);

  /// Returns whether the codes of all rows are in memory.
  [[nodiscard]] bool has_copy();

 private:
  enum class Method {
    kExactRows,  // binary32 products with the stored rows
    kCodedRows,  // products with codes that are computed in this pass
    kCopy,       // products with codes that are in memory
    kDevice,     // products with codes on another device
  };
  struct Plan {
    Method method;
    std::unique_ptr<RowCopy> copy;  // stores the codes of the pass for later ones; may be null
  };
  [[nodiscard]] Plan choose_method(std::size_t queries);
  [[nodiscard]] bool needs_copy() const;
  [[nodiscard]] std::unique_ptr<RowCopy> allocate_copy();
  [[nodiscard]] bool prepare_device();
  void disable_device(std::string_view reason);
  void report_device(Method method);
  const RowCoder& coder();
  void upload_rows(RowScanner& scanner);
  void pass(Plan plan, const Queries& queries, std::size_t k,
            std::span<std::vector<Match>> results);

  const Shards& shards_;
  ThreadPool& pool_;
  RowsInMemory in_memory_;
  const SearchProgress& progress_;
  std::mutex search_mutex_;
  std::int64_t passes_ = 0;  // the number of passes over the rows so far
  std::unique_ptr<RowCoder> coder_;
  std::unique_ptr<RowCopy> copy_;  // the codes of all rows
  OtherDevice other_;
  std::shared_ptr<RowScanner> scanner_;  // has the codes of all rows
  SearchListeners listeners_;
  std::string reported_device_;  // the device that was last reported to the listener
};

}  // namespace fovea::search
