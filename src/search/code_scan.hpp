// CodeScan: compares codes of rows with codes of queries, and returns pairs that may score highly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "cpu/tiles/tile_kernel.hpp"
#include "search/queries.hpp"
#include "search/row_codes.hpp"

namespace fovea::search {

/// Lower and upper bounds on a score.
struct Bounds {
  float lower = 0;
  float upper = 0;
};

/// Coded queries for CodeScan, shared by all threads.
class CodedQueries {
 public:
  /// Few queries get finer codes and are compared one by one, at the speed of memory; many are
  /// compared in tiles, at the speed of 8-bit matrix products (cpu::tile_kernel).
  CodedQueries(const RowCoder& coder, const Queries& queries);

  [[nodiscard]] const QueryCodes& codes() const { return codes_; }

 private:
  friend class CodeScan;
  std::int64_t stride_;
  std::size_t count_;
  bool in_tiles_;
  QueryCodes codes_;
  AlignedBuffer<cpu::Unit> panels_;
};

/// Scans the codes of rows on one thread.
class CodeScan {
 public:
  /// The maximum number of rows per call of scan().
  static constexpr std::int64_t kMaxRows = 128;
  /// The number of rows that may be read past the end. Their results are ignored.
  static constexpr std::int64_t kPaddingRows = 64;

  explicit CodeScan(const CodedQueries& queries) : queries_(queries) {}

  /// Returns the score below which rows are excluded.
  using Floor = std::function<double(std::size_t query)>;
  /// Called with a row, as an index into the scanned codes, and the bounds on its score. Unknown
  /// bounds are NaN or infinite.
  using Hit = std::function<void(std::size_t query, std::int64_t row, const Bounds& bounds)>;

  /// Scans codes [count, stride] with their terms. kPaddingRows more rows of both must be readable.
  void scan(const std::uint8_t* codes, const BoundTerms& terms, std::int64_t count,
            const Floor& floor, const Hit& hit);

 private:
  void scan_singly(const std::uint8_t* codes, const BoundTerms& terms, std::int64_t count,
                   const Floor& floor, const Hit& hit);
  void scan_tiles(const std::uint8_t* codes, const BoundTerms& terms, std::int64_t count,
                  const Floor& floor, const Hit& hit);

  const CodedQueries& queries_;
  AlignedBuffer<std::byte> scratch_;
  AlignedBuffer<cpu::Unit> packed_;
};

}  // namespace fovea::search
