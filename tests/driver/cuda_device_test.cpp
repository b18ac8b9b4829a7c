// CudaDevice on a driver that stands in for NVIDIA's: whose context is current, and what is too
// old.
#include <array>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "driver/fake_driver.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/driver_api.hpp"

namespace fovea::gpu {
namespace {

void* current() {
  driver::Context context = nullptr;
  driver::check(driver::api().context_get(&context), "asking for the context");
  return context;
}

void make_current(void* context) {
  driver::check(driver::api().context_set(static_cast<driver::Context>(context)), "setting it");
}

/// The thread works on GPU 0, as other CUDA code of its program would have it, Fovea on GPU 1.
class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override { make_current(theirs_); }
  void TearDown() override {
    make_current(nullptr);
    EXPECT_EQ(fake_driver_astray(), astray_);
  }

  void* theirs_ = fake_driver_context(0);
  void* ours_ = fake_driver_context(1);
  int astray_ = fake_driver_astray();
  int alive_ = fake_driver_alive();
};

TEST_F(CudaDeviceTest, OpeningAndClosingLeaveTheCallersContext) {
  std::unique_ptr<Device> device = open_cuda_device(1);
  EXPECT_EQ(current(), theirs_);
  constexpr std::array<std::byte, 4> kImage{};
  {
    const gpu::ContextGuard held = device->hold_context();
    (void)device->find(device->load(kImage), "kernel");
  }
  device.reset();
  EXPECT_EQ(current(), theirs_);
  EXPECT_EQ(fake_driver_alive(), alive_);
}

TEST_F(CudaDeviceTest, HoldsItsContextForAScope) {
  std::unique_ptr<Device> device = open_cuda_device(1);
  {
    const gpu::ContextGuard held = device->hold_context();
    EXPECT_EQ(current(), ours_);
    {
      const std::shared_ptr<void> again = device->hold_context();
      EXPECT_EQ(current(), ours_);
    }
    EXPECT_EQ(current(), ours_);
  }
  EXPECT_EQ(current(), theirs_);
  make_current(nullptr);
  {
    const gpu::ContextGuard held = device->hold_context();
    EXPECT_EQ(current(), ours_);
    device.reset();  // the context goes by the driver, not by the object
  }
  EXPECT_EQ(current(), nullptr);
}

// A garbage collector's thread, or a server's, which never called a device.
TEST_F(CudaDeviceTest, ObjectsAreDestroyedInTheirContextOnAnyThread) {
  const std::unique_ptr<Device> device = open_cuda_device(1);
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> event;
  std::unique_ptr<Graph> graph;
  DeviceBuffer memory;
  PinnedBuffer pinned;
  {
    const gpu::ContextGuard held = device->hold_context();
    stream = device->make_stream();
    event = device->make_event();
    device->begin_capture(*stream);
    graph = device->end_capture(*stream);
    memory = DeviceBuffer(*device, 100);
    pinned = PinnedBuffer(*device, 100);
  }
  EXPECT_EQ(fake_driver_alive(), alive_ + 5);
  for (void* const before : {static_cast<void*>(nullptr), theirs_}) {
    std::thread([&] {
      make_current(before);
      if (before == nullptr) {
        stream.reset();
        event.reset();
      } else {
        graph.reset();
        memory = {};
        pinned = {};
      }
      EXPECT_EQ(current(), before);
    }).join();
  }
  EXPECT_EQ(fake_driver_alive(), alive_);
}

TEST_F(CudaDeviceTest, SaysWhichDriverItNeeds) {
  fake_driver_set_version(12080);
  try {
    (void)open_cuda_device(0);
    ADD_FAILURE() << "a driver for CUDA 12.8 was taken";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("it supports CUDA 12.8, Fovea needs 13.0"), std::string::npos)
        << message;
  }
  fake_driver_set_version(13000);
  EXPECT_NO_THROW((void)open_cuda_device(0));
}

}  // namespace
}  // namespace fovea::gpu
