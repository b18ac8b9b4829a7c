// Nsight Compute's pages as they come, and what is said of them.
#include "lab/profile.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace fovea::lab {
namespace {

constexpr std::string_view kRaw =
    "==PROF== Connected to process 7 (/x/fovea)\n"
    "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\","
    "\"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active\","
    "\"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\",\"dram__bytes.sum.per_second\","
    "\"smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio\","
    "\"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio\","
    "\"launch__occupancy_limit_registers\",\"launch__occupancy_limit_shared_mem\","
    "\"launch__registers_per_thread\","
    "\"smsp__issue_active.avg.pct_of_peak_sustained_active\","
    "\"lts__throughput.avg.pct_of_peak_sustained_elapsed\","
    "\"l1tex__throughput.avg.pct_of_peak_sustained_active\","
    "\"sm__warps_active.avg.pct_of_peak_sustained_active\","
    "\"sm__maximum_warps_per_active_cycle_pct\","
    "\"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum\","
    "\"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum\","
    "\"sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active\","
    "\"launch__shared_mem_per_block_dynamic\",\"launch__shared_mem_per_block_static\"\n"
    "\"\",\"\",\"ns\",\"%\",\"%\",\"byte/s\",\"inst\",\"inst\",\"block\",\"block\",\"\","
    "\"%\",\"%\",\"%\",\"%\",\"%\",\"\",\"\",\"%\",\"Kbyte/block\",\"byte/block\"\n"
    "\"0\",\"gemm\",\"951,900\",\"91.5\",\"46.2\",\"2,227,000,000,000\",\"3\",\"1\",\"2\",\"1\","
    "\"168\",\"35.9\",\"75.7\",\"74.4\",\"14.1\",\"18.75\",\"795\","
    "\"9,000\",\"50.5\",\"24.58\",\"128\"\n";

constexpr std::string_view kSource =
    "\"Kernel Name\",\"gemm\",\n"
    "\"Address\",\"Source\",\"# Samples\",\"stall_long_sb\",\"stall_wait\"\n"
    "\"0x10\",\"      LDC R1, c[0x0][0x28]\",\"1\",\"0\",\"1\"\n"
    "\"0x20\",\"      LDG.E.128 R4, [R2]\",\"3\",\"2\",\"1\"\n";

TEST(Profile, CountersAreReadInUnitsOfOne) {
  const std::vector<Profile> profiles = read_profile(kRaw, kSource);
  ASSERT_EQ(profiles.size(), 1U);
  const Profile& profile = profiles.front();
  EXPECT_EQ(profile.kernel, "gemm");
  EXPECT_NEAR(profile.seconds, 951.9e-6, 1e-9);
  EXPECT_NEAR(profile.tensor, 0.915, 1e-9);
  EXPECT_NEAR(profile.dram_bytes_per_second, 2.227e12, 1e6);
  EXPECT_NEAR(profile.l2, 0.757, 1e-9);
  EXPECT_EQ(profile.registers, 168);
  EXPECT_EQ(profile.bank_conflicts, 795);
  EXPECT_EQ(profile.occupancy_reason, "shared memory");
  EXPECT_EQ(profile.ctas_per_sm, 1);
  EXPECT_NEAR(profile.shared_bytes, 24708, 1e-6);
  EXPECT_NEAR(profile.fma, 0.505, 1e-9);
  EXPECT_EQ(profile.shared_accesses, 9000);
  ASSERT_EQ(profile.stalls.size(), 2U);
  EXPECT_EQ(profile.stalls[0].first, "the matrix units");
  EXPECT_NEAR(profile.stalls[0].second, 0.75, 1e-9);
}

TEST(Profile, SamplesAreSharesWithTheirChiefReason) {
  const std::vector<Profile> profiles = read_profile(kRaw, kSource);
  ASSERT_EQ(profiles.front().hot_spots.size(), 2U);
  const HotSpot& load = profiles.front().hot_spots[1];
  EXPECT_EQ(load.instruction, "LDG.E.128 R4, [R2]");
  EXPECT_NEAR(load.share, 0.75, 1e-9);
  EXPECT_EQ(load.reason, "data from L1, L2 or device memory");
}

// Release builds leave the lines out of the machine code: a profile then says how to get them.
TEST(Profile, PlacesAreThoseOfTheLinesOrItSaysThatThereAreNone) {
  Profile with = read_profile(kRaw, kSource).front();
  place(with,
        "\t//## File \"/x/kernels/gemm/a.cuh\", line 14\n"
        "        /*0010*/  LDC R1, c[0x0][0x28] ;\n"
        "\t//## File \"/x/kernels/gemm/a.cuh\", line 20\n"
        "        /*0020*/  LDG.E.128 R4, [R2] ;\n");
  EXPECT_EQ(with.no_places, "");
  EXPECT_EQ(with.hot_spots[1].where, "a.cuh:20");
  EXPECT_EQ(with.roles.size(), 2U);
  Profile without = read_profile(kRaw, kSource).front();
  place(without,
        "        /*0010*/  LDC R1, c[0x0][0x28] ;\n"
        "        /*0020*/  LDG.E.128 R4, [R2] ;\n");
  EXPECT_TRUE(without.roles.empty());
  EXPECT_NE(to_text(without).find("-DFOVEA_KERNEL_LINES=ON"), std::string::npos)
      << to_text(without);
  EXPECT_EQ(to_text(with).find("KERNEL_LINES"), std::string::npos);
}

TEST(Profile, WordsSayWhatBounds) {
  const Profile bound = read_profile(kRaw, kSource).front();
  EXPECT_NE(verdict(bound).find("bound by the matrix units"), std::string::npos) << verdict(bound);
  Profile idle = bound;
  idle.tensor = 0.3;
  EXPECT_NE(verdict(idle).find("bound by latency"), std::string::npos) << verdict(idle);
  EXPECT_NE(verdict(idle).find("wait most for the matrix units"), std::string::npos);
}

// Read as zero it would say that a busy unit was idle.
TEST(Profile, AMissingCounterIsAnErrorThatNamesIt) {
  const auto without = [](std::string_view page, std::string_view name) {
    std::string changed(page);
    for (auto at = changed.find(name); at != std::string::npos; at = changed.find(name, at)) {
      changed[at] = '?';
    }
    return changed;
  };
  const auto why = [](std::string_view raw, std::string_view source) -> std::string {
    try {
      (void)read_profile(raw, source);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  for (const std::string_view counter :
       {"gpu__time_duration.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "smsp__average_warps_issue_stalled_"}) {
    const std::string message = why(without(kRaw, counter), kSource);
    EXPECT_NE(message.find(counter), std::string::npos) << counter << ": " << message;
  }
  for (const std::string_view column : {"Source", "# Samples", "stall_"}) {
    const std::string message = why(kRaw, without(kSource, column));
    EXPECT_NE(message.find(column), std::string::npos) << column << ": " << message;
  }
  EXPECT_EQ(why(kRaw, kSource), "");
}

TEST(Profile, PagesWithoutAKernelGiveNone) {
  EXPECT_TRUE(read_profile("", "").empty());
  EXPECT_TRUE(read_profile("==ERROR== nothing\n", "").empty());
}

TEST(ProfileGates, NameWhatIsMissed) {
  Profile profile;
  profile.tensor = 0.42;
  profile.bank_conflicts = 4;
  profile.shared_accesses = 100;
  profile.ctas_per_sm = 4;
  profile.registers = 64;
  profile.shared_bytes = 24576;
  ProfileGate gate;
  gate.least_tensor = 0.4;
  gate.most_conflicts = 0.05;
  gate.least_ctas_per_sm = 4;
  gate.most_registers = 64;
  gate.most_shared_bytes = 49152;
  const auto missed = [&](const Profile& seen) {
    std::string text;
    for (const GateResult& result : judge_gate(gate, seen)) {
      text += result.passed ? "" : result.what + "; ";
    }
    return text;
  };
  EXPECT_EQ(missed(profile), "");
  Profile wrong = profile;
  wrong.tensor = 0.087;
  EXPECT_EQ(missed(wrong), "matrix units busy 8.7% of the time, 40% wanted; ");
  wrong = profile;
  wrong.bank_conflicts = 5;
  EXPECT_NE(missed(wrong).find("wait for a bank"), std::string::npos);
  wrong = profile;
  wrong.shared_accesses = 0;
  wrong.bank_conflicts = 0;
  EXPECT_NE(missed(wrong).find("wait for a bank"), std::string::npos) << "counters were not read";
  wrong = profile;
  wrong.ctas_per_sm = 3;
  EXPECT_NE(missed(wrong).find("holds 3 CTAs"), std::string::npos);
  wrong = profile;
  wrong.registers = 72;
  EXPECT_NE(missed(wrong).find("72 registers"), std::string::npos);
  wrong = profile;
  wrong.shared_bytes = 50000;
  EXPECT_NE(missed(wrong).find("50000 bytes"), std::string::npos);
}

}  // namespace
}  // namespace fovea::lab
