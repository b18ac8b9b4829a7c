// Names of devices: those of the emulated GPUs, there and back.
#include "core/device_name.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace fovea {
namespace {

TEST(DeviceNames, OfTheEmulatorAreReadAsTheyAreWritten) {
  for (const int arch : {80, 90, 100}) {
    const auto device = parse_device(emulator_name(arch));
    ASSERT_TRUE(device.has_value()) << arch;
    EXPECT_EQ(device->kind, DeviceKind::kEmulator);
    EXPECT_EQ(device->number, arch);
  }
  EXPECT_EQ(parse_device("emu")->number, 90);
  EXPECT_FALSE(parse_device("emu:sm_100").has_value());
  EXPECT_THROW((void)emulator_name(75), Error);
}

}  // namespace
}  // namespace fovea
