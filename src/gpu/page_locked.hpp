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

/// Allocates page-locked buffers and recognises them by address. Buffers keep this object and the
/// device alive. Thread-safe.
class PageLocked : public std::enable_shared_from_this<PageLocked> {
 public:
  explicit PageLocked(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Allocates a buffer, in pageable memory if there is not enough page-locked memory.
  [[nodiscard]] HostBuffer allocate(std::size_t bytes);
  /// Whether `bytes` lies within one of the buffers.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const;

 private:
  void free(std::uint8_t* data);

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> buffers_;  // address and size of each
};

}  // namespace fovea::gpu
