// Gates: the model's limits on what an H200 was seen to do, and what bench's peers have to say.
#include "lab/profile/gates.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/launch/gate_record.hpp"
#include "lab/h200_profiles.hpp"

namespace fovea::lab {
namespace {

using test::h200_profile;

/// The ceilings in docs/performance.md.
constexpr Ceilings kH200{
    .copy_bytes_per_second = 4.269e12, .bf16_flops = 808e12, .e4m3_flops = 1535e12};

gpu::DeviceInfo h200() {
  gpu::DeviceInfo info;
  info.name = "NVIDIA H200";
  info.compute_major = 9;
  info.sm_count = 132;
  info.l2_bytes = std::size_t{60} << 20;
  info.shared_bytes_per_block = 232448;
  info.clock_khz = 1980000;
  return info;
}

/// Drawing the inputs of a large case takes longer than all else here.
const Work& work_of_case(const Card& card, const std::string& name) {
  static std::map<std::string, Work> known;
  const auto [found, fresh] = known.try_emplace(card.name + name);
  if (fresh) {
    found->second = needed_work(*find_case(card, name).make(1));
  }
  return found->second;
}

/// The gate of a card at a level on a case whose name begins so, and its report on a profile.
GateReport report_of(const std::string& name, const std::string& level, const std::string& in,
                     const Profile& seen) {
  const Card& card = *find_cards(std::vector{name}).front();
  const auto gate = std::ranges::find_if(card.gates, [&](const ProfileGate& profile_gate) {
    return profile_gate.level == level && profile_gate.case_name.starts_with(in);
  });
  if (gate == card.gates.end()) {
    ADD_FAILURE() << name << ' ' << level << ' ' << in;
    return {};
  }
  const Profile profile = merge_launches(std::span(&seen, 1));
  const auto gates = derive_gates(*gate, work_of_case(card, gate->case_name), kH200, h200(),
                                  static_cast<int>(profile["threads"]));
  return judge_gates(card, *gate, gates, profile);
}

std::vector<std::string> missed(const GateReport& report) {
  std::vector<std::string> figures;
  for (const GateResult& result : report.results) {
    if (!result.passed) {
      figures.push_back(result.gate.figure);
    }
  }
  return figures;
}

using Names = std::vector<std::string>;

// What was profiled on an H200, against limits that come from the model alone.
TEST(Gates, HoldWhereKernelsAreNearTheirRoofline) {
  const Names no_names;
  EXPECT_EQ(missed(report_of("gemm_qkv_bf16", "", "m", h200_profile("qkv"))), no_names);
  EXPECT_EQ(missed(report_of("gemm_fc2_int8", "", "m", h200_profile("fc2_int8"))), no_names);
  EXPECT_EQ(missed(report_of("patch_embed", "", "m", h200_profile("patch"))), no_names);
  EXPECT_EQ(missed(report_of("attention", "wgmma", "b1024", h200_profile("attn"))), no_names);
  EXPECT_EQ(missed(report_of("row_norm", "", "rows", h200_profile("row"))), no_names);
  EXPECT_EQ(missed(report_of("layer_norm", "", "rows", h200_profile("norm"))), no_names);
  EXPECT_EQ(missed(report_of("pixels_widen", "", "rows", h200_profile("widen"))), no_names);
  EXPECT_EQ(missed(report_of("attention", "scalar", "b2_", h200_profile("scalar"))), no_names);
  const Names matrix_units = {"matrix_units"};
  EXPECT_EQ(missed(report_of("attention", "wmma", "b2_", h200_profile("wmma"))), matrix_units);
}

// Each figure that gets worse, beyond what the model allows, is a gate missed.
TEST(Gates, AreMissedByEachFigureThatGetsWorse) {
  const Profile right = h200_profile("row");
  const auto altered = [&](const std::string& figure, double value) {
    Profile wrong = right;
    wrong.figures.at(figure) = value;
    return missed(report_of("row_norm", "", "rows", wrong));
  };
  EXPECT_EQ(altered("seconds", right["seconds"] * 2), (Names{"seconds", "dram_bytes_per_second"}));
  EXPECT_EQ(altered("dram_read_bytes", right["dram_read_bytes"] * 2), Names{"dram_bytes"});
  EXPECT_EQ(altered("layout_conflict_share", 0.2), Names{"layout_conflict_share"});
  EXPECT_EQ(altered("occupancy", 0.4), Names{"occupancy_reached"});
  EXPECT_EQ(altered("ctas_per_sm", 5), Names{"ctas_per_sm"});
  EXPECT_EQ(altered("registers", 96), Names{"registers"});
  EXPECT_EQ(altered("shared_bytes", 50000), Names{"shared_bytes"});
  for (const std::string stall : {"membar", "lg_throttle", "mio_throttle", "drain", "barrier"}) {
    EXPECT_EQ(altered("stall_" + stall, 0.2), Names{"stall_" + stall});
  }
  Profile slow = h200_profile("qkv");
  slow.figures["matrix_units"] = 0.5;
  EXPECT_EQ(missed(report_of("gemm_qkv_bf16", "", "m", slow)), Names{"matrix_units"});
}

TEST(Gates, OfEveryCardHaveALimitForEachPurpose) {
  const Work work{.what = "a problem", .flops = 1e12, .bytes = 1e9};
  for (const Card* const card : find_cards({})) {
    EXPECT_FALSE(card->gates.empty()) << card->name;
    for (const ProfileGate& gate : card->gates) {
      EXPECT_EQ(find_case(*card, gate.case_name).name, gate.case_name);
      std::set<std::string> figures;
      for (const Gate& limit : derive_gates(gate, work, kH200, h200(), 128)) {
        EXPECT_GT(limit.limit, 0) << card->name << ' ' << limit.figure;
        EXPECT_FALSE(limit.model.empty()) << card->name << ' ' << limit.figure;
        figures.insert(limit.figure);
      }
      for (const char* const figure :
           {"layout_conflict_share", "ctas_per_sm", "registers", "shared_bytes", "stall_barrier"}) {
        EXPECT_TRUE(figures.contains(figure)) << card->name << ' ' << figure;
      }
      const bool of_units = figures.contains("matrix_units") || figures.contains("fma") ||
                            figures.contains("dram_bytes_per_second");
      EXPECT_TRUE(of_units) << card->name << ' ' << gate.level;
      EXPECT_EQ(figures.contains("seconds") && figures.contains("dram_bytes"), gate.reach > 0);
    }
  }
  const ProfileGate& first = find_cards({}).front()->gates.front();
  EXPECT_THROW((void)derive_gates(first, work, Ceilings{}, h200(), 384), Error);
}

// The command writes what the choice of kernels reads.
TEST(Gates, AreRecordedAsTheChoiceReadsThem) {
  const std::vector<GateReport> reports = {
      report_of("attention", "wmma", "b2_", h200_profile("wmma")),
      report_of("gemm_qkv_bf16", "", "m", h200_profile("qkv"))};
  const auto entries =
      gpu::read_gate_record(to_json(h200(), kH200, reports), "NVIDIA H200", "here");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "wmma");
  EXPECT_EQ(entries[0].missed, "matrix_units 8.8%, at least 40.0% required");
  EXPECT_NEAR(entries[0].seconds, 22.1e-6, 1e-7);
  EXPECT_EQ(entries[1].name, "gemm_sm90_ping_pong_bf16_bias_bf16_2x192_v8");
  EXPECT_EQ(entries[1].missed, "");
}

TEST(Gates, SeeSeveralLaunchesAsOne) {
  const std::vector<Profile> launches = {h200_profile("pool0"), h200_profile("pool1")};
  const Profile merged = merge_launches(launches);
  EXPECT_EQ(merged.kernel, "pool_mean");
  EXPECT_NEAR(merged["seconds"], 12.32e-6, 1e-9);
  EXPECT_GT(merged["layout_conflict_share"], launches[1]["layout_conflict_share"]);
  EXPECT_LT(merged["layout_conflict_share"], launches[0]["layout_conflict_share"]);
  EXPECT_NEAR(merged["dram_bytes_per_second"] * merged["seconds"], merged["dram_bytes"], 1);
  // What the shorter one waits for counts, too.
  std::vector<Profile> waiting = launches;
  const bool first_is_longer = launches[0]["seconds"] > launches[1]["seconds"];
  Profile& shorter = waiting[first_is_longer ? 1 : 0];
  shorter.figures["stall_barrier"] = 0.9;
  waiting[first_is_longer ? 0 : 1].figures["stall_barrier"] = 0.0;
  EXPECT_NEAR(merge_launches(waiting)["stall_barrier"],
              0.9 * shorter["seconds"] / merged["seconds"], 1e-9);
}

// What could take the place of a kernel that missed a gate is measured, too.
TEST(Gates, OfAKernelThatMissedOneAskForTheNext) {
  const auto report_of = [](const std::string& kernel, double seconds, bool passed) {
    GateReport report;
    report.kernel = kernel;
    report.seconds = seconds;
    report.results.resize(1);
    report.results[0].passed = passed;
    return report;
  };
  const std::vector<std::string_view> kernels = {"a", "b", "c"};  // the fastest first, as it should
  const auto next = [&](const std::vector<GateReport>& reports) {
    return next_to_measure(kernels, reports);
  };
  EXPECT_EQ(next({report_of("a", 1.0, true)}), std::nullopt);
  EXPECT_EQ(next({report_of("a", 1.0, false)}), 1);
  EXPECT_EQ(next({report_of("b", 1.0, false)}), 0) << "the launcher may choose another";
  EXPECT_EQ(next({report_of("a", 1.0, false), report_of("b", 0.9, true)}), std::nullopt);
  EXPECT_EQ(next({report_of("a", 1.0, false), report_of("b", 0.9, false)}), 2);
  EXPECT_EQ(next({report_of("a", 1.0, false), report_of("b", 1.1, false)}), std::nullopt);
  EXPECT_EQ(
      next({report_of("a", 1.0, false), report_of("b", 0.9, false), report_of("c", 0.8, false)}),
      std::nullopt);
  EXPECT_EQ(next_to_measure({}, std::vector{report_of("pool", 1.0, false)}), std::nullopt);
}

// So are the levels that nothing is asked of on the case of one that missed a gate.
TEST(Gates, OfALevelThatMissedOneAskForTheOtherLevels) {
  Card card;
  card.levels = {"plain", "better", "best"};
  card.gates = {{.level = "best", .case_name = "large"},
                {.level = "best", .case_name = "small"},
                {.level = "better", .case_name = "small"}};
  const auto others = [&](const ProfileGate& missed) {
    std::vector<std::string> found;
    for (const ProfileGate& other : levels_without_gates(card, missed)) {
      EXPECT_EQ(other.case_name, missed.case_name);
      EXPECT_EQ(other.reach, 0) << "no ceiling has to be measured";
      found.push_back(other.level);
    }
    return found;
  };
  EXPECT_EQ(others(card.gates[0]), (std::vector<std::string>{"better", "plain"}));
  EXPECT_EQ(others(card.gates[1]), std::vector<std::string>{"plain"});
}

TEST(SpeedGates, AreOfNamedPeers) {
  Card card;
  card.speed_gates = {{.peer = "cuDNN", .min_ratio = 0.9}};
  const auto judged = [&](double ratio, bool ambiguous, const std::string& peer = "cuDNN 9.19") {
    BenchFigure figure;
    PeerFigure compared;
    compared.ratio = ratio;
    compared.ambiguous = ambiguous;
    compared.timing.name = peer;
    figure.peers = {compared};
    return judge_speed(card, figure).at(0);
  };
  EXPECT_TRUE(judged(0.95, false).passed);
  EXPECT_FALSE(judged(0.8, false).passed);
  EXPECT_EQ(judged(0.8, false).words(), "0.80x of cuDNN, at least 0.90x required");
  EXPECT_FALSE(judged(0.89, true).passed) << "near 1 is not near 0.9";
  card.speed_gates[0].min_ratio = 1.0;
  EXPECT_TRUE(judged(0.97, true).passed) << "within the spread";
  EXPECT_FALSE(judged(0.97, false).passed);
  card.speed_gates[0].min_ratio = 0.9;
  BenchFigure of_wrong;
  of_wrong.peers.resize(1);
  of_wrong.peers[0].ratio = 2.0;
  of_wrong.peers[0].wrong = "NaN";
  of_wrong.peers[0].timing.name = "cuDNN";
  EXPECT_FALSE(judge_speed(card, of_wrong).at(0).passed) << "a peer that computes something else";
  EXPECT_FALSE(judged(2.0, false, "another").passed);
  EXPECT_EQ(judged(2.0, false, "another").words(),
            "cuDNN was not measured, at least 0.90x required");
}

}  // namespace
}  // namespace fovea::lab
