// PageLocked: a map of page-locked buffers by address.
#include "gpu/page_locked.hpp"

#include <iterator>

namespace fovea::gpu {

HostBuffer PageLocked::allocate(std::size_t bytes) {
  std::uint8_t* data = nullptr;
  try {
    data = static_cast<std::uint8_t*>(device_->allocate_pinned(bytes));
  } catch (const OutOfMemory&) {
    return HostBuffer(bytes);
  }
  const std::lock_guard lock(mutex_);
  buffers_.emplace(reinterpret_cast<const std::byte*>(data), bytes);
  return {data, bytes, [self = shared_from_this()](std::uint8_t* old) { self->free(old); }};
}

bool PageLocked::holds(std::span<const std::byte> bytes) const {
  const std::lock_guard lock(mutex_);
  const auto after = buffers_.upper_bound(bytes.data());
  if (after == buffers_.begin()) {
    return false;
  }
  const auto& [begin, size] = *std::prev(after);
  return bytes.data() + bytes.size() <= begin + size;
}

void PageLocked::free(std::uint8_t* data) {
  {
    const std::lock_guard lock(mutex_);
    buffers_.erase(reinterpret_cast<const std::byte*>(data));
  }
  device_->free_pinned(data);
}

}  // namespace fovea::gpu
