// Pages of shadow cells: a cell covers four bytes, or fewer where an access is smaller.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace emu::races {

constexpr std::size_t kPageBytes = 1024;
constexpr unsigned kCellShift = 2;  // log2 of the maximum size of a cell in bytes

/// Array with a value per cell of a page, allocated at the first use.
template <typename T>
class Cells {
 public:
  [[nodiscard]] bool is_empty() const { return cells_ == nullptr; }
  T* get(std::size_t count) {
    if (cells_ == nullptr) {
      cells_ = std::make_unique<T[]>(count);  // NOLINT(modernize-avoid-c-arrays)
    }
    return cells_.get();
  }
  /// Splits each cell into `times` cells.
  void refine(std::size_t count, std::size_t times) {
    if (cells_ == nullptr) {
      return;
    }
    auto finer = std::make_unique<T[]>(count * times);  // NOLINT(modernize-avoid-c-arrays)
    for (std::size_t i = 0; i < count * times; ++i) {
      finer[i] = cells_[i / times];
    }
    cells_ = std::move(finer);
  }

 private:
  std::unique_ptr<T[]> cells_;  // NOLINT(modernize-avoid-c-arrays)
};

/// Calls use(page, first cell, number of cells, offset of the page) for the pages of a range.
/// refine(page, shift) splits a page's cells into smaller ones.
template <typename Page, typename Refine, typename Use>
void for_each_page(std::vector<Page>& pages, std::uint64_t offset, std::size_t bytes,
                   Refine&& refine, Use&& use) {
  while (bytes > 0) {
    const std::size_t number = offset / kPageBytes;
    const std::size_t first = offset % kPageBytes;
    const std::size_t count = std::min(bytes, kPageBytes - first);
    if (number >= pages.size()) {
      pages.resize(number + 1);
    }
    Page& page = pages[number];
    const auto shift = static_cast<unsigned>(std::countr_zero(first | count));
    if (shift < page.shift) {
      refine(page, shift);
    }
    use(page, first >> page.shift, count >> page.shift, number * kPageBytes);
    offset += count;
    bytes -= count;
  }
}

}  // namespace emu::races
