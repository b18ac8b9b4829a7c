// The table of instructions: what it knows, what it must know, and that cards name nothing else.
#include "lab/code/instruction_kinds.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/resources.hpp"

namespace fovea::lab {
namespace {

TEST(InstructionKinds, AreByWholeNamesAndArchitectures) {
  EXPECT_EQ(kind_of("LDG.E.128"), InstructionKind::kAccess);
  EXPECT_EQ(kind_of("LDGDEPBAR"), InstructionKind::kSynchronise);
  EXPECT_EQ(kind_of("LDC"), InstructionKind::kOther);
  EXPECT_EQ(kind_of("UTCIMMA.2CTA", 100), InstructionKind::kMultiply);
  EXPECT_EQ(kind_of("UTCIMMA.2CTA", 90), InstructionKind::kOther);
  EXPECT_EQ(kind_of("HGMMA.64x64x16.F32.BF16", 90), InstructionKind::kMultiply);
  EXPECT_EQ(kind_of("IMAD.WIDE"), InstructionKind::kOther);
  EXPECT_TRUE(is_work(kind_of("REDUX.SUM")));
  EXPECT_FALSE(is_work(kind_of("UTCBAR.2CTA.MULTICAST")));
}

TEST(InstructionKinds, WhatLooksLikeWorkAndIsNotListedIsAFault) {
  for (const char* const name :
       {"UTCZMMA.2CTA", "XGMMA.64x64x16", "LDXM.x4", "STZ", "UTMANEW.2D"}) {
    EXPECT_TRUE(is_unknown(name, 100)) << name;
  }
  EXPECT_TRUE(is_unknown("UTCHMMA", 90)) << "there is none on this architecture";
  for (const char* const name : {"UTCHMMA.2CTA", "LDTM.x32", "IMAD", "SYNCS.ARRIVE", "S2R"}) {
    EXPECT_FALSE(is_unknown(name, 100)) << name;
  }
  gpu::KernelImage image;
  image.name = "gemm_made_up";
  image.arch = 100;
  const std::vector<std::string> faults = check_instructions({}, image, {{"UTCZMMA.2CTA", 4}});
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_TRUE(faults.front().starts_with("4 UTCZMMA.2CTA, an instruction that kernels/archs.py"))
      << faults.front();
}

// A demand of a misspelt instruction would be met by any kernel.
TEST(InstructionKinds, CardsForbidAndCountWhatThereIs) {
  for (const Card& card : cards()) {
    const std::vector<int> archs = card_archs(card);
    const auto expect_known = [&](const std::string& name) {
      EXPECT_TRUE(std::ranges::any_of(
          archs, [&](int arch) { return kind_of(name, arch) != InstructionKind::kOther; }))
          << card.name << ": " << name;
    };
    for (const KernelLimits& limits : card.kernels) {
      std::ranges::for_each(limits.sass_lacks, expect_known);
      for (const Role& role : limits.roles) {
        expect_known(role.instruction);
      }
      for (const RegionLimits& region : limits.regions) {
        for (const InstructionDemand& demand : region.demands) {
          expect_known(demand.instruction);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::lab
