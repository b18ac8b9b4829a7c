// RowScanner: a device that stores the codes of all rows, and returns candidates for the best ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "search/code_scan.hpp"
#include "search/queries.hpp"
#include "search/row_codes.hpp"

namespace fovea::search {

/// A tile of consecutive rows, with bounds on their scores for a query.
struct TileBounds {
  std::size_t query = 0;
  std::int64_t first = 0;  // the first row of the tile, numbered over all shards
  std::span<const Bounds> bounds;
};

/// Scans rows on another device. Only upload() may be called concurrently.
class RowScanner {
 public:
  virtual ~RowScanner() = default;

  /// Returns the name of the device in messages, such as "cuda (NVIDIA H100 80GB HBM3, sm_90)".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Allocates memory for `rows` rows, whose codes `workers` threads then pass to upload(). Throws
  /// fovea::Error with the required and the available memory when it is insufficient.
  virtual void begin(const RowCoder& coder, std::int64_t rows, int workers) = 0;
  /// Uploads the first `count` rows of `copy` as the rows from `first` on. Each worker calls it
  /// with its number.
  virtual void upload(int worker, const RowCopy& copy, std::int64_t count, std::int64_t first) = 0;
  /// Ends the upload, after which find() may be called.
  virtual void end() = 0;

  /// Receives some tiles, in the order of their queries. It gets each row at most once per query.
  using Use = std::function<void(std::span<const TileBounds>)>;
  /// Passes to `use` all tiles with rows that may be among the best `rank` rows of a query. `rank`
  /// must be at least 1.
  virtual void find(const RowCoder& coder, const Queries& queries, std::size_t rank,
                    const Use& use) = 0;
};

/// A device that a search may use instead of the CPU.
struct OtherDevice {
  /// Opens the device. Empty when the search uses only the CPU. If `is_optional`, it may return
  /// null, which means that there is no device.
  std::function<std::shared_ptr<RowScanner>()> open;
  /// Whether the search can do without the device. An optional device is used from the second
  /// search on, if it has enough memory; a required one from the first.
  bool is_optional = false;
};

}  // namespace fovea::search
