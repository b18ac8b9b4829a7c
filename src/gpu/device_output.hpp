// DeviceOutput: results that stay on a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gpu/device/device.hpp"
#include "ops/backend.hpp"

namespace fovea::gpu {

/// Device memory for results. It keeps its device alive, and is freed after all work on the device
/// is done, since others may use the memory.
class DeviceOutput final : public ops::OutputMemory {
 public:
  /// Throws OutOfMemory.
  DeviceOutput(std::shared_ptr<Device> device, std::size_t bytes);
  ~DeviceOutput() override;

  [[nodiscard]] std::span<std::byte> bytes() const override;
  [[nodiscard]] int device() const override { return device_->info().index; }
  void copy_to(std::span<std::byte> host) const override;

 private:
  std::shared_ptr<Device> device_;
  DeviceBuffer buffer_;
  std::size_t bytes_;
};

}  // namespace fovea::gpu
