// RowScanner: another device that has the codes of all rows, and names the rows that may matter.
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

/// Rows that lie together, with what their scores of a query are between.
struct TileBounds {
  std::size_t query = 0;
  std::int64_t first = 0;  // row, counted through all shards
  std::span<const Bounds> bounds;
};

/// Callers serialise all calls but those of put().
class RowScanner {
 public:
  virtual ~RowScanner() = default;

  /// Text for messages: "cuda (NVIDIA H100 80GB HBM3, sm_90)".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Makes room for so many rows, whose codes `workers` threads then put there. Throws fovea::Error
  /// that says how much room they need and how much there is.
  virtual void begin(const RowCoder& coder, std::int64_t rows, int workers) = 0;
  /// The first `count` rows of a copy, to be rows from `first` on. Each worker calls it for itself.
  virtual void put(int worker, const RowCopy& copy, std::int64_t count, std::int64_t first) = 0;
  /// All rows have been put; from now on find() may be called.
  virtual void end() = 0;

  /// Takes some tiles, in the order of their queries; no row comes twice for a query.
  using Use = std::function<void(std::span<const TileBounds>)>;
  /// Gives all rows that the bounds do not rule out: those that may reach the score which the
  /// `rank`-th best row reaches. `rank` is at least 1.
  virtual void find(const RowCoder& coder, const Queries& queries, std::size_t rank,
                    const Use& use) = 0;
};

/// Where a search may go instead of the CPU.
struct OtherDevice {
  /// Empty: there is nowhere else to go. It may give null where `is_optional`: there is no device.
  std::function<std::shared_ptr<RowScanner>()> open;
  /// Whether the device is taken from the second search on, if there is one that has room; else it
  /// is taken from the first.
  bool is_optional = false;
};

}  // namespace fovea::search
