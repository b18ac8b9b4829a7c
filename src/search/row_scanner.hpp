// RowScanner: a device that holds the codes of all rows, and returns candidates for the best rows.
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
  std::int64_t first = 0;  // row, counted through all shards
  std::span<const Bounds> bounds;
};

/// Scans rows on another device. Callers serialise all calls except put().
class RowScanner {
 public:
  virtual ~RowScanner() = default;

  /// Text for messages: "cuda (NVIDIA H100 80GB HBM3, sm_90)".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Allocates memory for `rows` rows, whose codes `workers` threads then upload by put(). Throws
  /// fovea::Error with the required and the available memory.
  virtual void begin(const RowCoder& coder, std::int64_t rows, int workers) = 0;
  /// Uploads the first `count` rows of `copy` as rows from `first` on. Called by each worker.
  virtual void put(int worker, const RowCopy& copy, std::int64_t count, std::int64_t first) = 0;
  /// Ends the upload. From then on find() may be called.
  virtual void end() = 0;

  /// Takes some tiles, in the order of their queries; no row comes twice for a query.
  using Use = std::function<void(std::span<const TileBounds>)>;
  /// Passes to `use` all rows that the bounds do not exclude from the best `rank`. `rank` is at
  /// least 1.
  virtual void find(const RowCoder& coder, const Queries& queries, std::size_t rank,
                    const Use& use) = 0;
};

/// A device that a search may use instead of the CPU.
struct OtherDevice {
  /// Empty: there is nowhere else to go. It may give null where `is_optional`: there is no device.
  std::function<std::shared_ptr<RowScanner>()> open;
  /// Whether the device is taken from the second search on, if there is one that has room; else it
  /// is taken from the first.
  bool is_optional = false;
};

}  // namespace fovea::search
