// Host memory as a device's, for libraries that a test stands in for: nothing is launched on it.
#pragma once

#include <cstdlib>
#include <cstring>

#include "gpu/bare_device.hpp"

namespace fovea::gpu {

class HostStream final : public Stream {
 public:
  void synchronize() override {}
  void wait_for(const Event& /*event*/) override {}
};

class HostDevice : public BareDevice {
 public:
  [[nodiscard]] DevicePtr allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 256;
    return reinterpret_cast<DevicePtr>(
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  }
  void free(DevicePtr address) noexcept override { std::free(pointer(address)); }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<HostStream>();
  }
  void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& /*stream*/) override {
    std::memcpy(pointer(to), from.data(), from.size());
  }
  void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& /*stream*/) override {
    std::memcpy(to.data(), pointer(from), to.size());
  }
  void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes,
                      Stream& /*stream*/) override {
    std::memmove(pointer(to), pointer(from), bytes);
  }
  void fill(DevicePtr to, std::uint8_t value, std::size_t bytes, Stream& /*stream*/) override {
    std::memset(pointer(to), value, bytes);
  }
  void synchronize() override {}
  [[nodiscard]] void* native_handle(Stream& stream) override { return &stream; }

 private:
  static void* pointer(DevicePtr address) { return reinterpret_cast<void*>(address); }
};

}  // namespace fovea::gpu
