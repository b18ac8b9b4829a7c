// PageLocked: page-locked host memory, which the device copies directly.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "core/host_buffer.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// Allocates page-locked buffers and recognises them by address. Buffers keep it and the device
/// alive.
/// Thread-safe.
class PageLocked : public std::enable_shared_from_this<PageLocked> {
 public:
  explicit PageLocked(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Allocates a buffer; in pageable memory when no page-locked memory is left.
  [[nodiscard]] HostBuffer allocate(std::size_t bytes);
  /// Whether all of `bytes` lies in a buffer handed out and not freed.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const;

 private:
  void free(std::uint8_t* data);

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> buffers_;  // where each begins, and its bytes
};

}  // namespace fovea::gpu
