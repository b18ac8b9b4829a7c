// The device's memory as programs use it: at addresses of their choice, copied within the device,
// variables of modules; and what a kernel requires.
#include <array>
#include <bit>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

constexpr std::string_view kModule = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .const .align 4 .f32 factor = 0f40000000;
.visible .global .align 8 .b8 table[24];
.visible .entry load(.param .u64 from, .param .u64 to)
.maxntid 128
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  .shared .align 4 .b8 unused[512];
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd2], %r1;
  ret;
})";

std::array<std::byte, 16> addresses(std::uint64_t from, std::uint64_t to) {
  return std::bit_cast<std::array<std::byte, 16>>(std::array{from, to});
}

TEST(DeviceMemory, LiesWhereTheCallerWantsIt) {
  Device device;
  constexpr std::uint64_t kAddress = 0x7f12'3456'7000;
  device.allocate_at(kAddress, 64);
  EXPECT_THROW(device.allocate_at(kAddress + 63, 8), Error);
  EXPECT_THROW(device.allocate_at(kAddress - 8, 9), Error);
  EXPECT_THROW(device.allocate_at(kAddress, 8), Error);
  EXPECT_THROW(device.allocate_at(0x1'0000'0000, 8), Error);  // shared memory's window
  device.allocate_at(kAddress + 64, 8);
  const std::array<std::byte, 4> bytes = {std::byte{1}, std::byte{2}};
  device.write(kAddress + 60, bytes);
  const auto seen = device.view(kAddress + 60, 4);
  EXPECT_EQ(std::vector(seen.begin(), seen.end()), std::vector(bytes.begin(), bytes.end()));
  EXPECT_THROW((void)device.view(kAddress + 60, 5), Error);
}

TEST(DeviceMemory, IsAllocatedBesideWhatLiesWhereTheCallerWantsIt) {
  Device device;
  const std::uint64_t first = device.allocate(64);
  const std::uint64_t taken = first + 10'000;
  device.allocate_at(taken, 50'000);
  device.allocate_at(taken + 50'000, 100);
  const std::uint64_t second = device.allocate(8192);
  EXPECT_GE(second, taken + 50'100);
  EXPECT_EQ(device.view(second, 8192).size(), 8192U);
  EXPECT_GE(device.allocate(8), second + 8192);
}

TEST(DeviceMemory, CopiesWithinTheDeviceKeepWhatNothingWrote) {
  Device device;
  const KernelHandle kernel = device.load(kModule).front();
  const std::uint64_t from = device.allocate(8);
  const std::uint64_t to = device.allocate(8);
  const std::uint64_t result = device.allocate(4);
  device.write(from + 4, std::array<std::byte, 4>{std::byte{9}});
  device.copy(to, from, 8);
  const RunOptions options{.check_stored_values = true};
  EXPECT_TRUE(device.launch(kernel, {}, addresses(to + 4, result), options).is_clean());
  EXPECT_EQ(device.view(result, 1).front(), std::byte{9});
  const Report report = device.launch(kernel, {}, addresses(to, result), options);
  ASSERT_FALSE(report.is_clean());
  EXPECT_EQ(report.findings.front().kind, FindingKind::kUninitialized);
  EXPECT_THROW(device.copy(to, from, 9), Error);
}

TEST(DeviceMemory, ModulesTellTheirVariables) {
  Device device;
  const ModuleHandle module = device.load_module(kModule);
  ASSERT_EQ(module.kernels.size(), 1U);
  ASSERT_EQ(module.variables.size(), 2U);
  for (const VariableHandle& variable : module.variables) {
    EXPECT_EQ(variable.bytes, variable.name == "factor" ? 4U : 24U) << variable.name;
    EXPECT_EQ(device.view(variable.address, variable.bytes).back(),
              std::byte{variable.name == "factor" ? std::uint8_t{0x40} : std::uint8_t{0}});
  }
  const KernelInfo info = device.info(module.kernels.front());
  EXPECT_EQ(info.static_shared_bytes, 512U);
  EXPECT_EQ(info.max_threads, 128U);
  EXPECT_EQ(info.cluster, (std::array<std::uint32_t, 3>{}));
}

}  // namespace
}  // namespace emu
