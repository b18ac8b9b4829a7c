// A device in host memory that carries out pixels_repeat, and no other kernel.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include <gtest/gtest.h>

#include "gpu/host_device.hpp"
#include "kernels/pixels/pixels_params.hpp"

namespace fovea::lab {

/// Leaves the last `missing` copies out. Whatever is timed takes a millisecond.
class RepeatingDevice final : public gpu::HostDevice {
 public:
  explicit RepeatingDevice(std::int64_t missing) : missing_(missing) {}

  class NoEvent final : public gpu::Event {
   public:
    void record(gpu::Stream& /*stream*/) override {}
    void synchronize() override {}
    [[nodiscard]] bool done() override { return true; }
  };
  class NoGraph final : public gpu::Graph {
   public:
    void launch(gpu::Stream& /*stream*/) override {}
  };

  [[nodiscard]] const gpu::DeviceInfo& info() const override { return info_; }
  [[nodiscard]] gpu::Module load(std::span<const std::byte> /*image*/) override { return {}; }
  [[nodiscard]] gpu::Kernel find(gpu::Module /*module*/, std::string_view /*entry*/) override {
    return {};
  }
  [[nodiscard]] std::unique_ptr<gpu::Event> make_event() override {
    return std::make_unique<NoEvent>();
  }
  [[nodiscard]] double seconds_between(const gpu::Event& /*a*/, const gpu::Event& /*b*/) override {
    return 1e-3;
  }
  void begin_capture(gpu::Stream& /*stream*/) override {}
  [[nodiscard]] std::unique_ptr<gpu::Graph> end_capture(gpu::Stream& /*stream*/) override {
    return std::make_unique<NoGraph>();
  }
  void launch(gpu::Kernel /*kernel*/, const gpu::LaunchConfig& /*config*/,
              std::span<const std::byte> bytes, gpu::Stream& /*stream*/) override {
    pixels::RepeatParams params;
    ASSERT_EQ(bytes.size(), sizeof params);
    std::memcpy(&params, bytes.data(), sizeof params);
    for (std::int64_t copy = 0; copy < params.copies - missing_; ++copy) {
      std::copy_n(params.source, params.size, params.output + copy * params.size);
    }
  }

 private:
  std::int64_t missing_;
  gpu::DeviceInfo info_{.name = "a device in host memory", .compute_major = 9, .sm_count = 132};
};

}  // namespace fovea::lab
