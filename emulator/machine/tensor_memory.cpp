// Tensor memory of a block: its words and its allocations.
#include "emulator/machine/tensor_memory.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace emu {
namespace {

constexpr std::uint32_t kPoisonWord = 0xCBCBCBCB;
constexpr std::size_t kAllocationUnit = 32;

}  // namespace

std::span<std::uint32_t> TensorMemory::words() {
  if (words_.empty()) {
    words_.assign(kTensorWords, kPoisonWord);
  }
  return words_;
}

std::span<std::uint8_t> TensorMemory::written() {
  if (written_.empty()) {
    written_.resize(kTensorWords);
  }
  return written_;
}

bool TensorMemory::is_written(const TensorRange& range) {
  const std::span<const std::uint8_t> marks = written();
  for (std::size_t lane = range.lane; lane < range.lane + range.lanes; ++lane) {
    const auto row = marks.subspan(tensor_place(lane, range.column), range.columns);
    if (!std::ranges::all_of(row, [](std::uint8_t mark) { return mark != 0; })) {
      return false;
    }
  }
  return true;
}

void TensorMemory::set_written(const TensorRange& range) {
  for (std::size_t lane = range.lane; lane < range.lane + range.lanes; ++lane) {
    std::ranges::fill(written().subspan(tensor_place(lane, range.column), range.columns),
                      std::uint8_t{1});
  }
}

std::optional<std::size_t> TensorMemory::find_free_columns(std::size_t columns) const {
  for (std::size_t first = 0; first + columns <= kTensorColumns; first += kAllocationUnit) {
    const bool is_free = std::ranges::none_of(allocations_, [&](const TensorAllocation& other) {
      return first < other.first + other.columns && other.first < first + columns;
    });
    if (is_free) {
      return first;
    }
  }
  return std::nullopt;
}

void TensorMemory::allocate(const TensorAllocation& allocation) {
  allocations_.push_back(allocation);
  std::ranges::sort(allocations_, {}, &TensorAllocation::first);
  shadow.clear(allocation.first, allocation.columns);
}

bool TensorMemory::free(std::size_t first, std::size_t columns) {
  const auto allocation = std::ranges::find_if(allocations_, [&](const TensorAllocation& other) {
    return other.first == first && other.columns == columns;
  });
  if (allocation == allocations_.end()) {
    return false;
  }
  allocations_.erase(allocation);
  for (std::size_t lane = 0; lane < kTensorLanes; ++lane) {
    const std::size_t place = tensor_place(lane, first);
    std::ranges::fill(words().subspan(place, columns), kPoisonWord);
    std::ranges::fill(written().subspan(place, columns), std::uint8_t{0});
  }
  return true;
}

bool TensorMemory::is_allocated(std::size_t first, std::size_t columns) const {
  std::size_t allocated_end = first;  // end of the allocated columns that begin with `first`
  for (const TensorAllocation& allocation : allocations_) {
    if (allocation.first <= allocated_end &&
        allocated_end < allocation.first + allocation.columns) {
      allocated_end = allocation.first + allocation.columns;
    }
  }
  return allocated_end >= first + columns;
}

std::string TensorMemory::text() const {
  std::string text;
  for (const auto& [first, columns, warp, op] : allocations_) {
    text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", first, first + columns - 1);
  }
  return text.empty() ? "none" : text;
}

}  // namespace emu
