// CodeScan: compares codes of rows with codes of queries, and names the pairs that may matter.
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

/// What a score is between.
struct Bounds {
  float lower = 0;
  float upper = 0;
};

/// Queries for CodeScan; all threads share one.
class CodedQueries {
 public:
  /// Few queries are compared one by one, at the speed of memory, and with finer codes; many in
  /// tiles, at the speed of the matrix products of 8 bits (cpu::tile_kernel).
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

/// Scans codes, by one thread.
class CodeScan {
 public:
  /// Rows that scan() takes at once, at most.
  static constexpr std::int64_t kMaxRows = 128;
  /// Rows that may be read beyond those: what comes from them is not used.
  static constexpr std::int64_t kRowsBeyond = 64;

  explicit CodeScan(const CodedQueries& queries) : queries_(queries) {}

  /// The score below which rows are ruled out.
  using Floor = std::function<double(std::size_t query)>;
  /// A row, counted from the first, with what its score is between: NaN and infinity where nothing
  /// is known.
  using Hit = std::function<void(std::size_t query, std::int64_t row, const Bounds& bounds)>;

  /// Codes of rows [count, stride] and their terms, of kRowsBeyond more rows too.
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
