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
  EXPECT_FALSE(parse_device("emu:").has_value()) << "a row without a target is not emulated";
  EXPECT_THROW((void)emulator_name(75), Error);
  EXPECT_THROW((void)emulator_name(103), Error);
}

TEST(DeviceNames, OfTheEmulatorAreListedForHelp) {
  EXPECT_EQ(emulator_words(), "the emulator of an sm_90a, or of ARCH, sm_80, sm_90a or sm_100a");
  EXPECT_EQ(emulator_names(),
            (std::vector<std::string>{"emu", "emu:sm_80", "emu:sm_90a", "emu:sm_100a"}));
}

}  // namespace
}  // namespace fovea
