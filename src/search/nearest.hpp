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

/// Callbacks of a search; see CollectionOptions.
struct SearchListeners {
  std::function<void(std::string_view)> on_device;
  std::function<void(std::string_view)> on_note;
};

/// Searches in unchanging shards. Thread-safe; searches run one at a time.
class Searcher {
 public:
  /// The references must outlive this.
  Searcher(const Shards& shards, ThreadPool& pool, RowsInMemory in_memory,
           const SearchProgress& progress, OtherDevice other = {}, SearchListeners listeners = {})
      : shards_(shards),
        pool_(pool),
        in_memory_(in_memory),
        progress_(progress),
        other_(std::move(other)),
        listeners_(std::move(listeners)) {}

  /// See Collection::nearest.
  [[nodiscard]] std::vector<std::vector<Match>> nearest(std::span<const float> vectors, int k,
                                                        std::span<const std::int64_t> left_out);

  /// Whether the copy of the rows is in memory.
  [[nodiscard]] bool has_copy();

 private:
  enum class Way {
    kExactRows,  // binary32 products with the rows as they are
    kCodedRows,  // products of codes, which this pass makes of the rows
    kCopy,       // products of the codes that were kept
    kDevice,     // products on another device, which has the codes
  };
  struct Plan {
    Way way;
    std::unique_ptr<RowCopy> copy;  // which keeps the codes that the pass makes; null: none does
  };
  [[nodiscard]] Plan choose(std::size_t queries);
  [[nodiscard]] bool wants_copy() const;
  [[nodiscard]] std::unique_ptr<RowCopy> room_for_copy();
  [[nodiscard]] bool device_is_ready();
  void give_up_device(std::string_view why);
  void tell_place(Way way);
  const RowCoder& coder();
  void fill(RowScanner& scanner);
  void pass(Plan plan, const Queries& queries, std::size_t k,
            std::span<std::vector<Match>> results);

  const Shards& shards_;
  ThreadPool& pool_;
  RowsInMemory in_memory_;
  const SearchProgress& progress_;
  std::mutex turn_;
  std::int64_t passes_ = 0;  // over the rows, so far
  std::unique_ptr<RowCoder> coder_;
  std::unique_ptr<RowCopy> copy_;  // of all rows
  OtherDevice other_;
  std::shared_ptr<RowScanner> scanner_;  // with all rows
  SearchListeners listeners_;
  std::string place_;  // the device of the last search, as reported
};

}  // namespace fovea::search
