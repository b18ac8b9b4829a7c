// Global memory: allocations with gaps between them, and the initialisation state of each byte.
#include "emulator/machine/global_memory.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace emu {
namespace {

constexpr std::uint64_t kGap = 4096;

Allocation unwritten(std::uint64_t address, std::size_t bytes) {
  return {.address = address,
          .bytes = std::vector<std::byte>(bytes, std::byte{0xCB}),
          .is_written = std::vector<std::uint8_t>(bytes)};
}

}  // namespace

GlobalMemory::GlobalMemory(const GlobalMemory& other) : next_(other.next_) {
  for (const auto& [address, allocation] : other.allocations_) {
    allocations_.emplace(address, Allocation{.address = address,
                                             .bytes = allocation.bytes,
                                             .is_written = allocation.is_written,
                                             .is_constant = allocation.is_constant});
  }
}

std::uint64_t GlobalMemory::allocate(std::size_t bytes, std::size_t alignment) {
  std::uint64_t address = (next_ + kGap + alignment - 1) / alignment * alignment;
  // Behind memory that lies where the caller wanted it.
  auto other = allocations_.upper_bound(next_);
  other = other == allocations_.begin() ? other : std::prev(other);
  for (; other != allocations_.end() && other->first < address + bytes + kGap; ++other) {
    const std::uint64_t end = other->first + other->second.bytes.size();
    address = std::max(address, (end + kGap + alignment - 1) / alignment * alignment);
  }
  next_ = address + bytes;
  last_found_ = nullptr;
  allocations_.emplace(address, unwritten(address, bytes));
  return address;
}

bool GlobalMemory::allocate_at(std::uint64_t address, std::size_t bytes) {
  const auto after = allocations_.lower_bound(address);
  const bool is_before_next = after == allocations_.end() || bytes <= after->first - address;
  const bool is_behind_previous =
      after == allocations_.begin() ||
      std::prev(after)->second.bytes.size() <= address - std::prev(after)->first;
  if (!is_before_next || !is_behind_previous || bytes > UINT64_MAX - address) {
    return false;
  }
  last_found_ = nullptr;
  return allocations_.emplace(address, unwritten(address, bytes)).second;
}

bool GlobalMemory::free(std::uint64_t address) {
  last_found_ = nullptr;
  return allocations_.erase(address) == 1;
}

const Allocation* GlobalMemory::find(std::uint64_t address, std::size_t bytes) const {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) {
    return nullptr;
  }
  const Allocation& allocation = std::prev(after)->second;
  return allocation.contains(address, bytes) ? &allocation : nullptr;
}

std::size_t GlobalMemory::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [address, allocation] : allocations_) {
    bytes += allocation.bytes.size();
  }
  return bytes;
}

void GlobalMemory::clear_shadows() {
  for (auto& [address, allocation] : allocations_) {
    allocation.shadow = {};
    allocation.locations = {};
  }
}

Allocation* GlobalMemory::find(std::uint64_t address, std::size_t bytes) {
  if (last_found_ != nullptr && last_found_->contains(address, bytes)) {
    return last_found_;
  }
  const Allocation* const allocation = std::as_const(*this).find(address, bytes);
  last_found_ = allocation == nullptr ? nullptr : &allocations_.at(allocation->address);
  return last_found_;
}

}  // namespace emu
