// Nsight Compute's pages as they come, and what is said of them.
#include "lab/profile/profile.hpp"

#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/h200_profiles.hpp"

namespace fovea::lab {
namespace {

using test::h200_profile;
using test::h200_raw;
using test::kSourcePage;

TEST(Profile, CountersAreReadInUnitsOfOne) {
  const Profile profile = h200_profile("qkv");
  EXPECT_EQ(profile.kernel, "gemm_sm90_ping_pong_bf16_bias_bf16_2x192_v8");
  EXPECT_NEAR(profile["seconds"], 1.092e-3, 1e-6);
  EXPECT_NEAR(profile["matrix_units"], 0.925, 1e-4);
  EXPECT_NEAR(profile["dram_bytes_per_second"], 1.29e12, 1e10);
  EXPECT_NEAR(profile["dram_read_bytes"], 360.6e6, 1e5);
  EXPECT_NEAR(profile["l2_hit"], 0.9355, 1e-4);
  EXPECT_NEAR(profile["occupancy"], 0.1875, 1e-4);
  EXPECT_EQ(profile["ctas_per_sm"], 1);
  EXPECT_EQ(profile["registers"], 168);
  EXPECT_EQ(profile["shared_bytes"], 208896);
  EXPECT_EQ(profile["global_stores"], 2088576);
  EXPECT_EQ(profile["shared_loads"], 2089728);
  EXPECT_EQ(profile["local_loads"], 0);
  EXPECT_NEAR(profile["sectors_per_store"], 16.0, 1e-2);
  EXPECT_EQ(profile["bytes_per_store_sector"], 32);
  EXPECT_NEAR(profile["write_bytes"], 1.069e9, 1e6);
  EXPECT_NEAR(profile["predicated_off"], 0.081, 1e-3);
  EXPECT_NEAR(profile["bank_conflict_share"], 0.046, 1e-3);
  EXPECT_EQ(profile["layout_conflict_share"], 0);
  EXPECT_EQ(profile["waves"], 1);
  EXPECT_EQ(profile.occupancy_reason, "registers");
  EXPECT_EQ(profile.counters.at("launch__grid_size"), 132);
  EXPECT_NEAR(h200_profile("norm")["layout_conflict_share"], 0.004, 1e-4);
}

TEST(Profile, StallsHaveTheirNamesAndAddUpToAll) {
  const Profile profile = h200_profile("norm");
  EXPECT_EQ(profile.stalls.size(), 18U);
  EXPECT_EQ(profile.stalls.front().first, "long_scoreboard");
  EXPECT_NEAR(profile["stall_long_scoreboard"], 0.668, 1e-3);
  EXPECT_EQ(profile["stall_membar"], 0);
  double sum = 0;
  for (const auto& [reason, share] : profile.stalls) {
    EXPECT_NE(stall_in_words(reason), reason);
    sum += share;
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

// What reads figures by their names may rely on each.
TEST(Profile, EveryProfileHasEveryFigure) {
  for (const std::string& name : test::h200_names()) {
    const Profile profile = h200_profile(name);
    for (const FigureInfo& figure : figures()) {
      const double value = profile[figure.name];
      EXPECT_TRUE(value >= 0 && (!figure.share || value <= 1.0001)) << name << " " << figure.name;
    }
  }
  EXPECT_THROW((void)h200_profile("qkv")["speed"], Error);
}

TEST(Profile, FencesAreThoseThatWereExecuted) {
  std::string source(kSourcePage);
  source +=
      "\"0x30\",\"      MEMBAR.SC.GPU\",\"4\",\"500\",\"0\",\"4\"\n"
      "\"0x40\",\"      FENCE.VIEW.ASYNC.S\",\"0\",\"300\",\"0\",\"0\"\n";
  const Profile profile = read_profile(h200_raw("qkv"), source).at(0);
  EXPECT_EQ(profile["fences"], 800);
  EXPECT_NEAR(profile["fence_share"], 800 / profile["instructions"], 1e-12);
}

TEST(Profile, SamplesAreSharesOfAll) {
  const Profile profile = h200_profile("qkv");
  ASSERT_EQ(profile.instructions.size(), 2U);
  const Samples& load = profile.instructions[1];
  EXPECT_EQ(load.text, "LDG.E.128 R4, [R2]");
  EXPECT_NEAR(load.share, 0.75, 1e-9);
  EXPECT_EQ(load.stalls, (Shares{{"long_scoreboard", 0.5}, {"wait", 0.25}}));
}

constexpr std::string_view kTwoRoles =
    "\t//## File \"/x/kernels/ptx/tma.cuh\", line 7 inlined at \"a.cuh\", line 2\n"
    "\t//## File \"/x/kernels/gemm/a.cuh\", line 2 inlined at \"unit.cu\", line 9\n"
    "\t//## File \"unit.cu\", line 9\n"
    "        /*0010*/  LDC R1, c[0x0][0x28] ;\n"
    "\t//## File \"/x/kernels/gemm/a.cuh\", line 3 inlined at \"unit.cu\", line 9\n"
    "\t//## File \"unit.cu\", line 9\n"
    "        /*0020*/  LDG.E.128 R4, [R2] ;\n";

TEST(Profile, PlacesAndRolesAreThoseOfTheLines) {
  const std::map<std::string, std::string> sources = {
      {"kernels/gemm/a.cuh", "void run() {\n  produce();\n  consume();\n}\n"}};
  Profile profile = h200_profile("qkv");
  place(profile, std::string(kTwoRoles), sources);
  EXPECT_EQ(profile.no_places, "");
  ASSERT_EQ(profile.roles.size(), 2U);
  EXPECT_EQ(profile.roles[0].where, "a.cuh:3 `consume();`");
  EXPECT_NEAR(profile.roles[0].share, 0.75, 1e-9);
  EXPECT_EQ(profile.roles[0].stalls.front().first, "long_scoreboard");
  ASSERT_EQ(profile.places.size(), 2U);
  EXPECT_EQ(profile.places[1].where, "a.cuh:2") << "not the vocabulary's line";
  EXPECT_EQ(profile.places[1].role, "a.cuh:2 `produce();`");
  for (const FigureInfo& figure : figures_of_places()) {
    EXPECT_TRUE(profile.figures.contains(figure.name)) << figure.name;
  }
}

// Samples of one program would be given lines of another.
TEST(Profile, OtherMachineCodeGivesNoPlaces) {
  std::string other(kTwoRoles);
  other.replace(other.find("LDG"), 3, "LDS");
  for (const std::string& listing : {other, std::string("        /*0010*/  LDC R1, c[0x0] ;\n")}) {
    Profile profile = h200_profile("qkv");
    place(profile, listing, {});
    EXPECT_TRUE(profile.roles.empty());
    EXPECT_FALSE(profile.figures.contains("full_wait"));
    EXPECT_NE(to_text(profile).find("other machine code"), std::string::npos) << to_text(profile);
  }
}

// The compiler gives the question whatever line came before; the loop that asks again has its own.
TEST(Profile, AWaitForABarrierInMemoryIsWhereTheSourceSaysWait) {
  const std::map<std::string, std::string> sources = {
      {"kernels/gemm/a.cuh",
       "void run() {\n  int x;\n  ptx::mbarrier_wait_parity(&shared.full[stage], phase);\n}\n"}};
  const auto line_at = [](int line) {
    return fmt::format("\t//## File \"/x/kernels/gemm/a.cuh\", line {}\n", line);
  };
  const std::string listing = line_at(2) +
                              "        /*0010*/  SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R9 ;\n"
                              "        /*0020*/  UMOV UR4, URZ ;\n"
                              "        /*0030*/  @!P0 BRA `(.L_x_11) ;\n" +
                              line_at(1) + "        /*0040*/  EXIT ;\n.L_x_11:\n" + line_at(3) +
                              "        /*0050*/  SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R9 ;\n"
                              "        /*0060*/  @!P0 BRA `(.L_x_11) ;\n";
  std::string page =
      "\"Address\",\"Source\",\"# Samples\",\"Instructions Executed\",\"stall_long_sb\"\n";
  for (const std::string row :
       {"SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R9\",\"1", "UMOV UR4, URZ\",\"4",
        "@!P0  BRA 0x30\",\"2", "EXIT\",\"2", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R9\",\"1",
        "@!P0  BRA 0x50\",\"0"}) {
    page += "\"0x0\",\"" + row + "\",\"1\",\"0\"\n";
  }
  Profile profile = read_profile(h200_raw("qkv"), page).at(0);
  place(profile, listing, sources);
  EXPECT_EQ(profile.no_places, "");
  EXPECT_NEAR(profile["full_wait"], 0.4, 1e-9);
  EXPECT_EQ(profile["empty_wait"], 0);
}

// ncu's stall "barrier" is also that of warps that wait for products, or for the end.
TEST(Profile, WaitsAreToldApartByTheInstruction) {
  std::string page =
      "\"Address\",\"Source\",\"# Samples\",\"Instructions Executed\",\"stall_barrier\","
      "\"stall_membar\",\"stall_long_sb\"\n";
  for (const std::string row :
       {"UCGABAR_WAIT\",\"50\",\"1\",\"50\",\"0\",\"0",
        "WARPGROUP.DEPBAR.LE gsb0, 0x0\",\"10\",\"1\",\"10\",\"0\",\"0",
        "BAR.SYNC 0x0\",\"5\",\"1\",\"5\",\"0\",\"0", "MEMBAR.SC.GPU\",\"0\",\"1\",\"0\",\"0\",\"0",
        "ERRBAR\",\"20\",\"1\",\"0\",\"20\",\"0",
        "DEPBAR.LE SB0, 0x0\",\"0\",\"1\",\"0\",\"0\",\"0",
        "IADD3 R1\",\"15\",\"1\",\"0\",\"0\",\"15"}) {
    page += "\"0x0\",\"" + row + "\"\n";
  }
  const Profile profile = read_profile(h200_raw("qkv"), page).at(0);
  EXPECT_NEAR(profile["idle_warps"], 0.5, 1e-9);
  EXPECT_NEAR(profile["product_wait"], 0.2, 1e-9);
  EXPECT_NEAR(profile["barrier_wait"], 0.1, 1e-9);
  EXPECT_NEAR(profile["fence_wait"], 0.4, 1e-9);
  EXPECT_NEAR(profile["copy_wait"], 0.3, 1e-9);
  EXPECT_EQ(profile["fences"], 1);
}

TEST(Profile, JsonHasEverything) {
  Profile profile = h200_profile("norm");
  profile.subject = {.machine = R"({"date": "2026-01-01"})",
                     .card = "layer_norm",
                     .case_name = "m1",
                     .problem = "rows",
                     .plan = "",
                     .level = "",
                     .sources = "",
                     .changes = {{"stages", 3}}};
  profile.figures["dram"] = 0.9;
  const auto json = nlohmann::json::parse(to_json(profile));
  EXPECT_EQ(json["kind"], "profile");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["machine"]["date"], "2026-01-01");
  EXPECT_EQ(json["card"], "layer_norm");
  EXPECT_EQ(json["parameters"]["stages"], 3);
  for (const FigureInfo& figure : figures()) {
    EXPECT_TRUE(json["figures"].contains(figure.name)) << figure.name;
  }
  const auto table = test::h200_table();
  for (auto row = table.begin() + 2; row != table.end(); ++row) {
    EXPECT_TRUE(json["counters"].contains(row->front())) << row->front();
  }
  EXPECT_EQ(json["stalls"].size(), 18U);
  ASSERT_EQ(json["findings"].size(), 1U);
  EXPECT_EQ(json["findings"][0]["rule"], "bound by memory");
  EXPECT_EQ(json["findings"][0]["seen"]["dram"], 0.9);
  for (const char* const key : {"means", "try", "parameter", "strength"}) {
    EXPECT_TRUE(json["findings"][0].contains(key)) << key;
  }
}

TEST(Profile, NcusFailuresSayWhatToDo) {
  const auto why = [](const std::string& output, bool timed_out = false) {
    return why_ncu_failed({.exit_code = 1, .timed_out = timed_out, .output = output, .errors = ""});
  };
  EXPECT_NE(why("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA "
                "GPU Performance Counters on the target device 0.")
                .find("NVreg_RestrictProfilingToAdminUsers=0"),
            std::string::npos);
  EXPECT_NE(why("==ERROR== LibraryNotLoaded").find("a container or sandbox"), std::string::npos);
  EXPECT_NE(why("==ERROR== Failed to find metric x").find("Failed to find metric x"),
            std::string::npos);
  EXPECT_NE(why("", true).find("exceeded its time limit"), std::string::npos);
}

// launch__ and what ncu derives come with its sections.
TEST(Profile, NcuIsAskedForTheHardwaresCounters) {
  const auto names = counters_to_ask();
  EXPECT_GT(names.size(), 30U);
  for (const std::string& name : names) {
    EXPECT_FALSE(name.starts_with("launch__") || name.starts_with("derived__") ||
                 name.starts_with("memory_"))
        << name;
  }
}

TEST(Profile, WordsSayWhatBounds) {
  const Profile bound = h200_profile("qkv");
  EXPECT_NE(verdict(bound).find("bound by the matrix units"), std::string::npos) << verdict(bound);
  EXPECT_NE(verdict(h200_profile("row")).find("bound by the L2"), std::string::npos);
  const Profile latency = h200_profile("wmma");
  EXPECT_NE(verdict(latency).find("bound by latency"), std::string::npos) << verdict(latency);
  EXPECT_NE(verdict(latency).find("mostly wait for an instruction's fixed latency ("),
            std::string::npos);
  EXPECT_NE(verdict(latency).find("), then for shared memory"), std::string::npos);
}

// Read as zero it would say that a busy unit was idle.
TEST(Profile, AMissingCounterIsAnErrorThatNamesIt) {
  const auto why = [](std::string_view raw, std::string_view source) -> std::string {
    try {
      (void)read_profile(raw, source);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const std::string raw = h200_raw("qkv");
  ASSERT_EQ(why(raw, kSourcePage), "");
  const auto replaced = [](std::string page, std::string_view old, std::string_view fresh) {
    const auto begin = page.find(old);
    EXPECT_NE(begin, std::string::npos) << old;
    return page.replace(begin, old.size(), fresh);
  };
  const auto table = test::h200_table();
  for (auto row = table.begin() + 2; row != table.end(); ++row) {
    if (row->front() != "launch__occupancy_limit_barriers" &&
        row->front().find("stalled_gmma") == std::string::npos) {  // not of every GPU
      const std::string message =
          why(replaced(raw, "\"" + row->front() + "\"", "\"?\""), kSourcePage);
      EXPECT_NE(message.find(row->front()), std::string::npos) << row->front() << ": " << message;
    }
  }
  for (const std::string_view nothing : {"", "n/a", "nan"}) {
    const std::string message =
        why(replaced(raw, "\"92.499909\"", "\"" + std::string(nothing) + "\""), kSourcePage);
    EXPECT_NE(message.find("sm__pipe_tensor_cycles_active"), std::string::npos) << message;
  }
  for (const std::string_view column : {"Source", "# Samples", "Instructions Executed"}) {
    EXPECT_NE(why(raw, replaced(std::string(kSourcePage), column, "?")).find(column),
              std::string::npos);
  }
  std::string no_stalls(kSourcePage);
  for (auto begin = no_stalls.find("stall_"); begin != std::string::npos;
       begin = no_stalls.find("stall_")) {
    no_stalls[begin] = '?';
  }
  EXPECT_NE(why(raw, no_stalls).find("stall_"), std::string::npos);
  EXPECT_NE(why(raw, "").find("source page"), std::string::npos);
}

TEST(Profile, PagesWithoutAKernelGiveNone) {
  EXPECT_TRUE(read_profile("", "").empty());
  EXPECT_TRUE(read_profile("==ERROR== nothing\n", "").empty());
}

}  // namespace
}  // namespace fovea::lab
