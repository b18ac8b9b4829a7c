// A device that can do nothing: tests override the few things that they need.
#pragma once

#include "core/error.hpp"
#include "gpu/device/device.hpp"

namespace fovea::gpu {

class BareDevice : public Device {
 public:
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] DevicePtr allocate(std::size_t /*bytes*/) override { none(); }
  void free(DevicePtr /*address*/) noexcept override {}
  [[nodiscard]] std::size_t free_memory() override { none(); }
  [[nodiscard]] void* allocate_pinned(std::size_t /*bytes*/) override { none(); }
  void free_pinned(void* /*address*/) noexcept override {}
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { none(); }
  [[nodiscard]] std::unique_ptr<Stream> borrow_stream(void* /*native_handle*/) override { none(); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { none(); }
  [[nodiscard]] double seconds_between(const Event& /*start*/, const Event& /*end*/) override {
    none();
  }
  void copy_to_device(DevicePtr /*to*/, std::span<const std::byte> /*from*/,
                      Stream& /*stream*/) override {
    none();
  }
  void copy_to_host(std::span<std::byte> /*to*/, DevicePtr /*from*/, Stream& /*stream*/) override {
    none();
  }
  void copy_on_device(DevicePtr /*to*/, DevicePtr /*from*/, std::size_t /*bytes*/,
                      Stream& /*stream*/) override {
    none();
  }
  void fill(DevicePtr /*to*/, std::uint8_t /*value*/, std::size_t /*bytes*/,
            Stream& /*stream*/) override {
    none();
  }
  [[nodiscard]] Module load(std::span<const std::byte> /*image*/) override { none(); }
  [[nodiscard]] Kernel find(Module /*module*/, std::string_view /*entry*/) override { none(); }
  [[nodiscard]] TensorMap encode(const TensorMapDesc& /*desc*/) override { none(); }
  void launch(Kernel /*kernel*/, const LaunchConfig& /*config*/,
              std::span<const std::byte> /*params*/, Stream& /*stream*/) override {
    none();
  }
  void begin_capture(Stream& /*stream*/) override { none(); }
  [[nodiscard]] std::unique_ptr<Graph> end_capture(Stream& /*stream*/) override { none(); }
  void synchronize() override { none(); }
  [[nodiscard]] void* native_handle(Stream& /*stream*/) override { none(); }

 private:
  [[noreturn]] static void none() { fail("a device of tests, which cannot do this"); }

  DeviceInfo info_;
};

}  // namespace fovea::gpu
