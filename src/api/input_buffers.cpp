// Keeps a few spare buffers, sorted by size.
#include "api/input_buffers.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace fovea {
namespace {

// Number of buffers that the loader of one call uses. More than these, from concurrent calls, are
// freed instead of kept.
constexpr std::size_t kMaxSpareBuffers = 4;

}  // namespace

HostBuffer InputBuffers::take(std::size_t bytes) {
  // A shared_ptr only because std::function requires a copyable callable; it is never copied.
  const auto owned = std::make_shared<HostBuffer>(find(bytes));
  std::uint8_t* data = owned->data();
  return {data, bytes, [this, owned](std::uint8_t*) { give_back(std::move(*owned)); }};
}

HostBuffer InputBuffers::find(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::lower_bound(spare_, bytes, {}, &HostBuffer::size);
    if (found != spare_.end()) {
      HostBuffer buffer = std::move(*found);
      spare_.erase(found);
      return buffer;
    }
  }
  return allocate_(bytes);
}

void InputBuffers::give_back(HostBuffer buffer) {
  HostBuffer dropped;  // freed after the mutex is unlocked
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::lower_bound(spare_, buffer.size(), {}, &HostBuffer::size);
  spare_.insert(place, std::move(buffer));
  if (spare_.size() > kMaxSpareBuffers) {
    dropped = std::move(spare_.front());
    spare_.erase(spare_.begin());
  }
}

}  // namespace fovea
