// InputBuffers: memory for batches of pixels, kept from call to call.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "core/host_buffer.hpp"

namespace fovea {

/// Page-locking memory for a GPU takes longer than embedding a few images, so buffers are reused.
/// This object must outlive its buffers. Thread-safe.
class InputBuffers {
 public:
  using Allocate = std::function<HostBuffer(std::size_t bytes)>;

  explicit InputBuffers(Allocate allocate) : allocate_(std::move(allocate)) {}
  InputBuffers(const InputBuffers&) = delete;
  InputBuffers& operator=(const InputBuffers&) = delete;

  /// Returns an uninitialised buffer of `bytes`, which is returned to this object when it is freed.
  [[nodiscard]] HostBuffer take(std::size_t bytes);

 private:
  [[nodiscard]] HostBuffer find(std::size_t bytes);
  void give_back(HostBuffer buffer);

  Allocate allocate_;
  std::mutex mutex_;
  std::vector<HostBuffer> spare_;  // smallest first
};

}  // namespace fovea
