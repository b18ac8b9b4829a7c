// Local memory of a warp's lanes: variables of the kernel, and a stack for those of its calls.
#include "emulator/machine/local_memory.hpp"

#include <algorithm>

namespace emu {

LocalMemory::LocalMemory(std::size_t bytes)
    : capacity_(bytes), bytes_(kLanes * bytes), is_written_(kLanes * bytes) {
  tops_.fill(bytes);
}

void LocalMemory::set_top(int lane, std::size_t top) {
  std::size_t& old = tops_.at(static_cast<std::size_t>(lane));
  if (top > capacity_) {
    grow(std::max(top, 2 * capacity_));
  }
  if (top > old) {
    std::fill_n(written(lane, old), top - old, std::uint8_t{0});
  }
  old = top;
}

void LocalMemory::grow(std::size_t capacity) {
  std::vector<std::byte> bytes(kLanes * capacity);
  std::vector<std::uint8_t> is_written(kLanes * capacity);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const auto from = static_cast<std::ptrdiff_t>(lane * capacity_);
    const auto to = static_cast<std::ptrdiff_t>(lane * capacity);
    const auto count = static_cast<std::ptrdiff_t>(tops_.at(lane));
    std::copy_n(bytes_.begin() + from, count, bytes.begin() + to);
    std::copy_n(is_written_.begin() + from, count, is_written.begin() + to);
  }
  capacity_ = capacity;
  bytes_ = std::move(bytes);
  is_written_ = std::move(is_written);
}

}  // namespace emu
