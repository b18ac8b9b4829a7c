// A made-up row behind those of kernels/archs.py: whatever reads rows knows the architecture then.
#include "kernels/archs.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/code/instruction_kinds.hpp"

namespace fovea::lab {
namespace {

constexpr int kNumber = 130;
constexpr std::array<gpu::ListedInstruction, 3> kInstructions = {
    {{"LDG", InstructionKind::kAccess},
     {"XMMA", InstructionKind::kMultiply},
     {"UTCLD", InstructionKind::kAccess}}};

std::vector<gpu::Arch> with_made_up_row() {
  std::vector<gpu::Arch> archs(gpu::kArchs.begin(), gpu::kArchs.end());
  archs.push_back({.number = kNumber,
                   .target = "sm_130a",
                   .shared_bytes = 300 << 10,
                   .overlaps = true,
                   .instructions = kInstructions});
  return archs;
}

TEST(MadeUpArchitecture, IsADeviceThatHelpAndChoicesList) {
  const std::vector<gpu::Arch> archs = with_made_up_row();
  EXPECT_EQ(emulator_names(archs).back(), "emu:sm_130a");
  EXPECT_NE(emulator_words(archs).find("sm_100a or sm_130a"), std::string::npos);
  EXPECT_EQ(parse_device("emu:sm_130a", archs)->number, kNumber);
  EXPECT_EQ(emulator_name(kNumber, archs), "emu:sm_130a");
  EXPECT_FALSE(parse_device("emu:sm_130a").has_value());
}

TEST(MadeUpArchitecture, IsEmulated) {
  const std::vector<gpu::Arch> archs = with_made_up_row();
  const gpu::DeviceInfo info = gpu::emulated_info(kNumber, archs);
  EXPECT_EQ(info.name, "PTX emulator of sm_130a");
  EXPECT_EQ(info.arch(), kNumber);
  EXPECT_EQ(info.shared_bytes_per_block, 300U << 10);
  try {
    static_cast<void>(gpu::emulated_info(75, archs));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "the emulator has no sm_75; use --device emu:sm_80, --device emu:sm_90a, --device "
              "emu:sm_100a or --device emu:sm_130a");
  }
}

TEST(MadeUpArchitecture, HasInstructionsThatRulesKnow) {
  const std::vector<gpu::Arch> archs = with_made_up_row();
  EXPECT_EQ(kind_of("XMMA.16816", kNumber, archs), InstructionKind::kMultiply);
  EXPECT_EQ(kind_of("XMMA.16816", 0, archs), InstructionKind::kMultiply);
  EXPECT_FALSE(is_unknown("UTCLD", kNumber, archs));
  EXPECT_TRUE(is_unknown("UTCLD", 100, archs));
  EXPECT_TRUE(is_unknown("HMMA", kNumber, archs)) << "the row does not have it";
  EXPECT_TRUE(is_unknown("XMMA", kNumber)) << "nor does a table without the row";
}

TEST(Architectures, AreFoundByTheLastRowUpToANumber) {
  EXPECT_EQ(gpu::arch_up_to(86, gpu::kArchs).number, 80);
  EXPECT_EQ(gpu::arch_up_to(110, gpu::kArchs).number, 103);
  EXPECT_FALSE(gpu::arch_up_to(75, gpu::kArchs).overlaps);
  EXPECT_EQ(gpu::find_arch(86, gpu::kArchs), nullptr);
  EXPECT_TRUE(std::ranges::is_sorted(gpu::kArchs, {}, &gpu::Arch::number));
}

}  // namespace
}  // namespace fovea::lab
