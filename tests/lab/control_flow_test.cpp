// Control flow and roles of machine code, and instructions by region, on made-up listings: sound
// ones, and each with one planted mistake.
#include "lab/code/control_flow.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/code/regions.hpp"

namespace fovea::lab {
namespace {

using Next = std::vector<std::size_t>;
using Faults = std::vector<std::string>;

/// Lines as nvdisasm -ndf -b prints them, 16 bytes apart.
std::string kernel_listing(std::initializer_list<std::string_view> instructions) {
  std::string text = "\t.headerflags\t@\"EF_CUDA_SM90\"\n";
  std::size_t address = 0;
  for (const std::string_view instruction : instructions) {
    text += fmt::format("        /*{:04x}*/                   {} ;\n", address, instruction);
    address += 16;
  }
  return text;
}

const std::array<Role, 2> both_roles = {{{"producer", "UTMALDG"}, {"consumers", "HGMMA"}}};

RoleParts roles_in(const std::string& listing) {
  const auto instructions = read_instructions(listing);
  const auto blocks = control_flow(instructions);
  return find_roles(instructions, blocks, both_roles);
}

/// A sound kernel, with one of its instructions replaced.
std::string kernel_with(std::size_t index = 99, std::string_view instead = {}) {
  std::array<std::string_view, 15> all = {
      "S2R R0, SR_TID.X", "BSSY B0, 0x40", "@P0 BRA 0x30", "BSYNC B0",
      "BAR.SYNC.DEFER_BLOCKING 0x0", "@P1 BRA 0xb0",
      // consumers
      "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R4", "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24",
      "BAR.SYNC.DEFER_BLOCKING R3, 0x80", "@P2 BRA 0x60", "BRA 0xd0",
      // producer
      "UTMALDG.2D [UR4], [UR8]", "@P3 BRA 0xb0",
      // both
      "UCGABAR_WAIT", "EXIT"};
  if (index < all.size()) {
    all.at(index) = instead;
  }
  std::string text;
  std::size_t address = 0x400;  // as of a kernel behind others
  for (const std::string_view instruction : all) {
    std::string line(instruction);
    if (const auto mark = line.rfind(", 0x"); mark != line.npos && !line.starts_with("BAR")) {
      line = fmt::format("{}, {:#x}", line.substr(0, mark),
                         0x400 + std::stoul(line.substr(mark + 2), nullptr, 16));
    } else if (const auto branch = line.find("BRA 0x"); branch != line.npos) {
      line = fmt::format("{}BRA {:#x}", line.substr(0, branch),
                         0x400 + std::stoul(line.substr(branch + 4), nullptr, 16));
    }
    text += fmt::format("        /*{:04x}*/                   {} ;\n", address, line);
    address += 16;
  }
  return text;
}

TEST(ControlFlow, FollowsBranchesReconvergenceAndCalls) {
  const std::string listing =
      kernel_listing({"BSSY B1, 0x50", "@P0 BRA 0x30", "BSYNC B1", "BRA.DIV UR4, 0x20", "BRA 0x20",
                      "CALL.REL.NOINC 0x70", "EXIT", "RET.REL.NODEC R2"});
  const auto instructions = read_instructions(listing);
  ASSERT_EQ(instructions.size(), 8U);
  const auto blocks = control_flow(instructions);
  ASSERT_EQ(blocks.size(), 6U);
  EXPECT_EQ(blocks[0].next, (Next{2, 1}));
  EXPECT_EQ(blocks[1].next, (Next{4})) << "where BSSY says that the warp meets";
  EXPECT_EQ(blocks[2].next, (Next{1, 3})) << "an operand is a condition, too";
  EXPECT_EQ(blocks[4].next, Next{});
  EXPECT_EQ(blocks[4].calls, (Next{5}));
  EXPECT_THROW((void)control_flow(read_instructions(kernel_listing({"BRX R2 -0x10", "EXIT"}))),
               Error);
  EXPECT_THROW((void)control_flow(read_instructions(kernel_listing({"BRA 0x990", "EXIT"}))), Error);
}

TEST(Roles, AreDisjointAndJoinedByBarriersAlone) {
  const RoleParts roles = roles_in(kernel_with());
  EXPECT_EQ(roles.faults, Faults{});
  EXPECT_EQ(roles.parts.front(), "prologue");
  EXPECT_EQ(roles.parts.back(), "epilogue");
  EXPECT_NE(std::ranges::find(roles.parts, "producer"), roles.parts.end());
  EXPECT_NE(std::ranges::find(roles.parts, "consumers"), roles.parts.end());
}

TEST(Roles, EachPlantedMistakeIsNamed) {
  struct Planted {
    std::size_t index;
    std::string_view instead;
    std::string_view told;
  };
  for (const Planted& planted : {
           Planted{
               10, "BRA 0xb0",
               "a path leads from the consumers (HGMMA.64x64x16.F32.BF16 at 0x70) to the producer"},
           Planted{13, "STG.E [R2], R4", "STG.E at 0xd0 is executed by several roles"},
           Planted{8, "BAR.SYNC.DEFER_BLOCKING 0x0",
                   "BAR.SYNC.DEFER_BLOCKING at 0x80, of the consumers, waits"},
           Planted{4, "NOP", "no barrier of all threads precedes the consumers"},
           Planted{11, "NOP", "the role 'producer' lacks its instruction UTMALDG"},
       }) {
    const RoleParts roles = roles_in(kernel_with(planted.index, planted.instead));
    EXPECT_TRUE(std::ranges::any_of(
        roles.faults,
        [&](const std::string& fault) { return fault.find(planted.told) != fault.npos; }))
        << planted.told << ", but: " << fmt::format("{}", fmt::join(roles.faults, "; "));
  }
}

// Work of any architecture, and what is told of it in the drawing.
TEST(Roles, MayNotWorkTogetherOnceTheyHaveMet) {
  for (const std::string_view work :
       {"HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24", "UTCHMMA.2CTA gdesc[UR10], gdesc[UR12]",
        "UTCQMMA.2CTA gdesc[UR10], gdesc[UR12]", "UTCIMMA gdesc[UR10], gdesc[UR12]",
        "UTCOMMA.4X gdesc[UR10], gdesc[UR12]", "UTCCP.T.S.2CTA.4x32dp128bit tmem[UR4], gdesc[UR6]",
        "LDTM.x32 R4, tmem[UR4]", "STTM.x8 tmem[UR4], R4", "UBLKCP.S.G [UR4], [UR6], UR8",
        "UTMAREDG.2D [UR4], [UR8]", "REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R4", "QMMA.16832 R4",
        "STAS [R2], R4", "LDS R4, [R2]"}) {
    const std::string listing = kernel_with(13, work);
    const RoleParts roles = roles_in(listing);
    const std::string name(work.substr(0, work.find(' ')));
    const bool is_of_role = name.starts_with("HGMMA");  // that makes it a role's instruction, too
    EXPECT_TRUE(std::ranges::any_of(roles.faults,
                                    [&](const std::string& fault) {
                                      return fault.starts_with(
                                          is_of_role ? "a path leads from the producer"
                                                     : name + " at 0xd0 is executed by several");
                                    }))
        << work << ", but: " << fmt::format("{}", fmt::join(roles.faults, "; "));
    const auto instructions = read_instructions(listing);
    const auto blocks = control_flow(instructions);
    EXPECT_NE(to_dot("k", instructions, blocks, roles).find("1 " + name), std::string::npos)
        << work;
  }
  for (const std::string_view harmless : {"UCGABAR_WAIT", "FENCE.VIEW.ASYNC.S", "IMAD R2, R3, R4",
                                          "UTCATOMSWS.AND URZ, UR4", "LDC R2, c[0x0][0x0]"}) {
    EXPECT_EQ(roles_in(kernel_with(13, harmless)).faults, Faults{}) << harmless;
  }
}

TEST(Roles, AreBoxesOfTheGraph) {
  const std::string listing = kernel_with();
  const auto instructions = read_instructions(listing);
  const auto blocks = control_flow(instructions);
  const std::string dot =
      to_dot("k", instructions, blocks, find_roles(instructions, blocks, both_roles));
  for (const char* const part :
       {"digraph \"k\"", "cluster_producer", "cluster_consumers", "1 UTMALDG.2D", "b0 -> b"}) {
    EXPECT_NE(dot.find(part), dot.npos) << part;
  }
}

constexpr std::string_view kSource =
    "int a;\n"
    "for (;;) {  // region: epilogue loop\n"
    "  store();\n"
    "}  // end region\n";

TEST(Regions, AreFoundByTheirMarks) {
  const RegionLines regions = find_regions({{"kernels/a.cuh", std::string(kSource)}});
  ASSERT_EQ(regions.size(), 1U);
  EXPECT_EQ(regions.at("epilogue loop").front().first, 2);
  EXPECT_EQ(regions.at("epilogue loop").front().last, 4);
  // Lines that are added before it move it.
  EXPECT_EQ(find_regions({{"a", "\n" + std::string(kSource)}}).at("epilogue loop").front().first,
            3);
  for (const char* const wrong :
       {"// region: x\n", "// end region\n", "// region: x\n// region: y\n// end region\n"}) {
    EXPECT_THROW((void)find_regions({{"kernels/a.cuh", wrong}}), Error) << wrong;
  }
}

TEST(Regions, CountWhatWasInlinedIntoThem) {
  const RegionLines regions = find_regions({{"kernels/a.cuh", std::string(kSource)}});
  const std::string listing =
      "\t//## File \"/x/kernels/ptx/m.cuh\", line 9 inlined at \"/x/kernels/a.cuh\", line 3\n"
      "\t//## File \"/x/kernels/a.cuh\", line 3\n"
      "        /*0000*/                   STG.E.128 [R2], R4 ;\n"
      "        /*0010*/                   STG.E.128 [R2], R8 ;\n"
      "\t//## File \"/x/kernels/a.cuh\", line 1\n"
      "        /*0020*/                   BAR.SYNC 0x0 ;\n";
  const auto counts = count_by_region(listing, regions);
  EXPECT_EQ(counts.at("epilogue loop"), (InstructionCounts{{"STG.E.128", 2}}));
  EXPECT_TRUE(count_by_region("        /*0000*/  EXIT ;\n", regions).empty()) << "no lines";

  const RegionLimits limits{"epilogue loop", {exactly("STG", 2), at_most("BAR", 0)}};
  EXPECT_EQ(check_demands(limits, {}, counts.at("epilogue loop")), Faults{});
  EXPECT_EQ(check_demands(limits, {}, {{"STG.E.128", 3}, {"BAR.SYNC", 1}, {"STGX", 4}}),
            (Faults{"epilogue loop: 3 STG instead of exactly 2",
                    "epilogue loop: 1 BAR instead of at most 0"}));
}

}  // namespace
}  // namespace fovea::lab
