// A few spare buffers, smallest first.
#include "api/input_buffers.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace fovea {
namespace {

// Buffers that the loader of one call uses; those beyond, for concurrent calls, are freed.
constexpr std::size_t kKept = 4;

}  // namespace

HostBuffer InputBuffers::take(std::size_t bytes) {
  // Shared only because std::function requires copies, which never happen.
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
  HostBuffer dropped;  // freed after the lock
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::lower_bound(spare_, buffer.size(), {}, &HostBuffer::size);
  spare_.insert(place, std::move(buffer));
  if (spare_.size() > kKept) {
    dropped = std::move(spare_.front());
    spare_.erase(spare_.begin());
  }
}

}  // namespace fovea
