// A device that does what another does: tests override what they want to see or to change.
#pragma once

#include <memory>
#include <utility>

#include "gpu/device/device.hpp"

namespace fovea::gpu {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> to) : to_(std::move(to)) {}

  [[nodiscard]] const DeviceInfo& info() const override { return to_->info(); }
  [[nodiscard]] ContextGuard hold_context() override { return to_->hold_context(); }
  [[nodiscard]] DevicePtr allocate(std::size_t bytes) override { return to_->allocate(bytes); }
  void free(DevicePtr address) noexcept override { to_->free(address); }
  [[nodiscard]] std::size_t free_memory() override { return to_->free_memory(); }
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override {
    return to_->allocate_pinned(bytes);
  }
  void free_pinned(void* address) noexcept override { to_->free_pinned(address); }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return to_->make_stream(); }
  [[nodiscard]] std::unique_ptr<Stream> borrow_stream(void* native_handle) override {
    return to_->borrow_stream(native_handle);
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return to_->make_event(); }
  [[nodiscard]] double seconds_between(const Event& start, const Event& end) override {
    return to_->seconds_between(start, end);
  }
  void copy_to_device(DevicePtr to, std::span<const std::byte> from, Stream& stream) override {
    to_->copy_to_device(to, from, stream);
  }
  void copy_to_host(std::span<std::byte> to, DevicePtr from, Stream& stream) override {
    to_->copy_to_host(to, from, stream);
  }
  void copy_on_device(DevicePtr to, DevicePtr from, std::size_t bytes, Stream& stream) override {
    to_->copy_on_device(to, from, bytes, stream);
  }
  void fill(DevicePtr to, std::uint8_t value, std::size_t bytes, Stream& stream) override {
    to_->fill(to, value, bytes, stream);
  }
  [[nodiscard]] Module load(std::span<const std::byte> image) override { return to_->load(image); }
  [[nodiscard]] Kernel find(Module module, std::string_view entry) override {
    return to_->find(module, entry);
  }
  [[nodiscard]] TensorMap encode(const TensorMapDesc& desc) override { return to_->encode(desc); }
  void launch(Kernel kernel, const LaunchConfig& config, std::span<const std::byte> params,
              Stream& stream) override {
    to_->launch(kernel, config, params, stream);
  }
  void begin_capture(Stream& stream) override { to_->begin_capture(stream); }
  [[nodiscard]] std::unique_ptr<Graph> end_capture(Stream& stream) override {
    return to_->end_capture(stream);
  }
  void synchronize() override { to_->synchronize(); }
  [[nodiscard]] void* native_handle(Stream& stream) override { return to_->native_handle(stream); }

 private:
  std::unique_ptr<Device> to_;
};

}  // namespace fovea::gpu
