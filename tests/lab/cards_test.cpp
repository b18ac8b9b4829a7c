// The cards themselves, on any machine: complete, and with gates that notice their mutants.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpu/bare_device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/judge.hpp"

namespace fovea::lab {
namespace {

TEST(Cards, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const Card& card : cards()) {
    EXPECT_TRUE(names.insert(card.name).second) << card.name;
    EXPECT_FALSE(card.operation.empty()) << card.name;
    const std::vector<std::string> asked = {card.name};
    EXPECT_EQ(find_cards(asked).size(), 1U);
  }
  EXPECT_EQ(find_cards({}).size(), cards().size());
  const std::vector<std::string> unknown = {"no_such_kernel"};
  EXPECT_THROW((void)find_cards(unknown), Error);
}

TEST(Cards, HaveCasesForEveryPurpose) {
  for (const Card& card : cards()) {
    const auto any = [&](bool Case::* purpose) {
      return std::ranges::any_of(card.cases,
                                 [=](const Case& card_case) { return card_case.*purpose; });
    };
    EXPECT_TRUE(any(&Case::check)) << card.name;
    EXPECT_TRUE(any(&Case::bench)) << card.name;
    EXPECT_TRUE(any(&Case::mutants)) << card.name;
    EXPECT_TRUE(any(&Case::small)) << card.name;
    std::set<std::string> names;
    for (const Case& card_case : card.cases) {
      EXPECT_TRUE(names.insert(card_case.name).second) << card.name << ' ' << card_case.name;
    }
    EXPECT_FALSE(card.kernels.empty()) << card.name;
    EXPECT_GE(card.tolerance.difference, 0.0);
    EXPECT_LE(card.tolerance.tile_difference, 1e-2) << card.name;
  }
}

/// Whether one of the cards is responsible for the kernel.
bool covered(std::string_view kernel) {
  return std::ranges::any_of(cards(), [=](const Card& card) {
    return std::ranges::any_of(card.kernels,
                               [=](const KernelLimits& limits) { return limits.covers(kernel); });
  });
}

// A kernel without a card would be built and shipped without anybody checking it. Those of the
// laboratory itself are part of peers, whose results are compared before they are timed.
TEST(Cards, EveryKernelOfTheProgramHasOne) {
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    if (image.source.starts_with("lab/")) {
      continue;
    }
    EXPECT_TRUE(covered(image.name)) << image.name;
  }
}

// What decides between a failure and a card that has nothing to show on a GPU.
TEST(Cards, CarryKernelsForTheGpusTheyAreMeantFor) {
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  const auto device = [](int major) {
    return gpu::DeviceInfo{.name = "a GPU", .compute_major = major};
  };
  for (const Card& card : cards()) {
    const int arch = card.first_arch;
    EXPECT_FALSE(card_archs(card).empty()) << card.name;
    EXPECT_EQ(carries_kernels(card, device(9)), arch <= 90) << card.name;
    EXPECT_FALSE(carries_kernels(card, device(7))) << card.name;
    if (arch < 90) {
      EXPECT_TRUE(carries_kernels(card, device(8))) << card.name;
    }
    // A case that no kernel runs is a failure from there on, and before it none may be missing.
    gpu::DeviceInfo first = device(arch / 10);
    first.compute_minor = arch % 10;
    first.sm_count = 100;
    first.shared_bytes_per_block = std::size_t{99} << 10;
    if (arch >= 90) {
      first.shared_bytes_per_block = std::size_t{227} << 10;
    }
    for (const Case& card_case : card.cases) {
      if (card_case.small) {
        EXPECT_TRUE(card_case.make(1)->can_run(first)) << card.name << ' ' << card_case.name;
      }
    }
  }
  EXPECT_FALSE(
      carries_kernels(*find_cards(std::vector<std::string>{"gemm_qkv_int8"}).front(), device(8)));
}

TEST(Cards, LimitsNameKernelsThatExist) {
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  for (const Card& card : cards()) {
    for (const KernelLimits& limits : card.kernels) {
      EXPECT_TRUE(std::ranges::any_of(
          gpu::kernel_images(),
          [&](const gpu::KernelImage& image) { return limits.covers(image.name); }))
          << card.name << ": " << limits.kernel;
    }
  }
}

/// Encodes tensor maps, for launches that nobody carries out.
class LaunchlessDevice final : public gpu::BareDevice {
 public:
  [[nodiscard]] const gpu::DeviceInfo& info() const override { return info_; }
  [[nodiscard]] TensorMap encode(const gpu::TensorMapDesc& /*desc*/) override { return {}; }

 private:
  gpu::DeviceInfo info_{.name = "an H200",
                        .compute_major = 9,
                        .sm_count = 132,
                        .shared_bytes_per_block = std::size_t{227} << 10};
};

// What `fovea kernel sanitize` runs under compute-sanitizer's tools is every kernel that Hopper
// runs.
TEST(Cards, SmallCasesLaunchEveryKernel) {
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  LaunchlessDevice device;
  std::set<gpu::KernelId> launched;
  for (const Card& card : cards()) {
    for (const Case& card_case : card.cases) {
      if (!card_case.small || !card_case.check) {
        continue;
      }
      const std::unique_ptr<Workload> workload = card_case.make(1);
      if (card.first_arch > 90) {
        EXPECT_FALSE(workload->can_run(device.info())) << card.name << ' ' << card_case.name;
        continue;
      }
      constexpr gpu::DevicePtr kSomewhere = 4096;
      const Operands operands{
          .inputs = std::vector(workload->inputs().size(), kSomewhere),
          .output = kSomewhere,
          .row_scale = kSomewhere,
          .scratch = kSomewhere,
      };
      for (const Plan& plan : workload->plans(device.info())) {
        for (const gpu::Launch& launch : workload->launches(device, operands, plan)) {
          launched.insert(launch.kernel);
          if (const auto* const planned = std::get_if<gpu::GemmPlan>(&plan); planned != nullptr) {
            EXPECT_EQ(launch.kernel, planned->kernel) << workload->describe();
          }
        }
      }
    }
  }
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    if (image.arch == 90 && !gpu::info_of(image.kernel).lab) {
      EXPECT_TRUE(launched.contains(image.kernel)) << image.name << " is in no small case's plans";
    }
  }
}

TEST(CheckJson, NamesWhatWasLaunched) {
  CheckResult result;
  result.card = "pool";
  result.kernels = {"pool_scores_3", "pool_mean"};
  const auto json =
      nlohmann::json::parse(to_json({.name = "a GPU", .compute_major = 9}, std::span(&result, 1)));
  EXPECT_EQ(json["arch"], 90);
  EXPECT_EQ(json["checks"][0]["kernels"], (std::vector{"pool_scores_3", "pool_mean"}));
}

/// One card a test, so that they run side by side.
class EveryCard : public testing::TestWithParam<const Card*> {};

/// A seed with which a LayerNorm's first two weights are all but equal: a mutant that swapped them
/// would pass.
constexpr std::uint64_t kFirstSeed = 331;

/// Tiles and seeds of a case: what is small is compared whole, and with many seeds.
std::pair<std::size_t, std::uint64_t> effort_of(const Workload& workload) {
  constexpr double kQuick = 1e7;  // operations
  return workload.flops() < kQuick ? std::pair{std::size_t{48}, std::uint64_t{12}}
                                   : std::pair{std::size_t{6}, std::uint64_t{2}};
}

// The framework's own result passes, so does the exact one, rounded, and each mutant's, computed
// the same way, does not: inputs and limits can falsify whatever the seed is.
TEST_P(EveryCard, GatesPassTheFrameworkAndRejectMutants) {
  const Card& card = *GetParam();
  for (const Case& card_case : card.cases) {
    if (!card_case.mutants) {
      continue;
    }
    const auto [max_tiles, seeds] = effort_of(*card_case.make(1));
    for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + seeds; ++seed) {
      SCOPED_TRACE(card_case.name + ", seed " + std::to_string(seed));
      const std::unique_ptr<Workload> workload = card_case.make(seed);
      const OutputSpec output = workload->output();
      const std::vector<Tile> tiles = sample_tiles(output.rows, output.columns, max_tiles, seed);
      std::vector<TileValues> values = expectations(*workload, tiles);
      EXPECT_FALSE(judge(values, card.tolerance).passes()) << "nothing was written";
      fill_rounded(*workload, values);
      EXPECT_EQ(judge(values, card.tolerance).reason, "") << "rounded";
      fill_emulated(*workload, values);
      EXPECT_EQ(judge(values, card.tolerance).reason, "") << "the framework";
      for (const auto& [name, spoiled_values] : spoiled_outputs(values)) {
        EXPECT_FALSE(judge(spoiled_values, card.tolerance).passes()) << name;
      }
      const std::vector<Mutant> mutants = workload->mutants();
      EXPECT_GE(mutants.size(), 2U);
      for (const Mutant& mutant : mutants) {
        fill_emulated(*mutant.workload, values);
        EXPECT_FALSE(judge(values, card.tolerance).passes()) << mutant.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cards, EveryCard, testing::ValuesIn(find_cards({})),
                         [](const auto& card) { return card.param->name; });

// Every norm is asked what it makes of a NaN, and every product that can: the one whose GELU takes
// a maximum of halves before it stores 8 bits above all. The answer that is expected is the exact
// one.
TEST(Cards, AreAskedWhatTheyMakeOfNan) {
  std::set<std::string> asked;
  for (const Card& card : cards()) {
    for (const Case& card_case : card.cases) {
      const std::unique_ptr<Workload> workload = card_case.mutants ? card_case.make(1) : nullptr;
      const Poisoned poisoned = workload ? workload->poisoned() : Poisoned{};
      if (!poisoned.workload) {
        continue;
      }
      asked.insert(card.name);
      const OutputSpec output = workload->output();
      std::vector<TileValues> values;
      for (const Tile& tile : sample_tiles(output.rows, output.columns, 48, 1)) {
        // The row with the NaN and its neighbours.
        const Tile part{poisoned.row - 1, tile.column, 3, tile.columns};
        if (poisoned.row > tile.row && poisoned.row + 1 < tile.row + tile.rows) {
          values.emplace_back().tile = part;
          values.back().actual.resize(part.count());
          poisoned.workload->reference(part, values.back().actual);
        }
      }
      EXPECT_EQ(wrong_nan(values, poisoned.row), "") << card.name << ' ' << card_case.name;
    }
  }
  for (const char* const name :
       {"row_norm", "layer_norm", "layer_norm_i8", "layer_norm_f32", "layer_norm_mxfp8",
        "gemm_qkv_norm", "gemm_fc1_bf16", "gemm_fc1_int8_to_e4m3"}) {
    EXPECT_TRUE(asked.contains(name)) << name;
  }
}

// Small cases and those with mutants at every seed; the large ones take turns, and none is left
// out.
TEST(Cards, EverySeedChecksEveryCard) {
  for (const Card& card : cards()) {
    constexpr int kSeeds = 20;
    for (int turn = 0; turn < kSeeds; ++turn) {
      const auto checked = [&](const Case& card_case) { return checks(card, card_case, {}, turn); };
      const auto small = [](const Case& card_case) {
        return card_case.check && (card_case.small || card_case.mutants);
      };
      const auto large = [](const Case& card_case) {
        return card_case.check && !card_case.small && !card_case.mutants;
      };
      int large_ones = 0;
      for (const Case& card_case : card.cases) {
        EXPECT_TRUE(checked(card_case) || !small(card_case))
            << card.name << ' ' << card_case.name << ' ' << turn;
        EXPECT_FALSE(checked(card_case) && !card_case.check)
            << card.name << ' ' << card_case.name << ' ' << turn;
        large_ones += checked(card_case) && large(card_case) ? 1 : 0;
      }
      EXPECT_EQ(large_ones, turn == 0 ? std::ranges::count_if(card.cases, large) : 1)
          << card.name << ' ' << turn;
    }
    for (const Case& card_case : card.cases) {
      int times = 0;
      for (int turn = 1; turn < kSeeds; ++turn) {
        times += checks(card, card_case, {}, turn) ? 1 : 0;
      }
      // A card of more large cases than seeds takes the rest with later ones.
      EXPECT_TRUE(times > 0 || !card_case.check || card.cases.size() >= kSeeds) << card_case.name;
    }
  }
}

// Other seeds are other inputs: a gate on one draw could be passed by accident.
TEST(Cards, SeedsDrawOtherInputs) {
  for (const Card& card : cards()) {
    const Case& card_case = card.cases.front();
    const auto first = card_case.make(1);
    const auto second = card_case.make(2);
    EXPECT_FALSE(std::ranges::equal(first->inputs()[0].block(), second->inputs()[0].block()))
        << card.name;
  }
}

}  // namespace
}  // namespace fovea::lab
