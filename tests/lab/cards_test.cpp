// The cards themselves, on any machine: complete, and with gates that notice their mutants.
#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "lab/card.hpp"
#include "lab/check_cards.hpp"
#include "lab/judge.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kMostTiles = 6;

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
      return std::ranges::any_of(card.cases, [=](const Case& one) { return one.*purpose; });
    };
    EXPECT_TRUE(any(&Case::check)) << card.name;
    EXPECT_TRUE(any(&Case::bench)) << card.name;
    EXPECT_TRUE(any(&Case::mutants)) << card.name;
    EXPECT_TRUE(any(&Case::small)) << card.name;
    std::set<std::string> names;
    for (const Case& one : card.cases) {
      EXPECT_TRUE(names.insert(one.name).second) << card.name << ' ' << one.name;
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
    GTEST_SKIP() << "built without the CUDA compiler";
  }
  const auto device = [](int major) {
    return gpu::DeviceInfo{.name = "a GPU", .compute_major = major};
  };
  for (const Card& card : cards()) {
    EXPECT_TRUE(carries_kernels(card, device(9))) << card.name;
    EXPECT_FALSE(carries_kernels(card, device(7))) << card.name;
    if (card.arch < 90) {
      EXPECT_TRUE(carries_kernels(card, device(8))) << card.name;
    }
    // From there on a case that no kernel runs is a failure, and before it none may be missing.
    gpu::DeviceInfo first = device(card.arch / 10);
    first.compute_minor = card.arch % 10;
    first.sm_count = 100;
    first.shared_bytes_per_block = std::size_t{99} << 10;
    if (card.arch == 90) {
      first.shared_bytes_per_block = std::size_t{227} << 10;
    }
    for (const Case& one : card.cases) {
      if (one.small) {
        EXPECT_EQ(one.make(1)->can_run(first), "") << card.name << ' ' << one.name;
      }
    }
  }
  EXPECT_FALSE(
      carries_kernels(*find_cards(std::vector<std::string>{"gemm_qkv_int8"}).front(), device(8)));
}

TEST(Cards, LimitsNameKernelsThatExist) {
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "built without the CUDA compiler";
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

/// One card a test, so that they run side by side.
class EveryCard : public testing::TestWithParam<const Card*> {};

// The framework's own result passes, and each mutant's, computed the same way, does not: inputs
// and limits can falsify.
TEST_P(EveryCard, GatesPassTheFrameworkAndRejectMutants) {
  const Card& card = *GetParam();
  for (const Case& one : card.cases) {
    if (!one.mutants) {
      continue;
    }
    const std::unique_ptr<Workload> workload = one.make(1);
    const OutputSpec output = workload->output();
    const std::vector<Tile> tiles = sample_tiles(output.rows, output.columns, kMostTiles, 1);
    std::vector<TileValues> values = expectations(*workload, tiles);
    EXPECT_FALSE(judge(values, card.tolerance).passes()) << "nothing was written";
    fill_emulated(*workload, values);
    const Verdict right = judge(values, card.tolerance);
    EXPECT_TRUE(right.passes()) << one.name << ": " << right.reason;
    for (const auto& [name, spoiled_values] : spoiled(values)) {
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

INSTANTIATE_TEST_SUITE_P(Cards, EveryCard, testing::ValuesIn(find_cards({})),
                         [](const auto& card) { return card.param->name; });

// Every norm is asked what it makes of a NaN, and the answer that is expected is the exact one.
TEST(Cards, NormsAreAskedWhatTheyMakeOfNan) {
  int asked = 0;
  for (const Card& card : cards()) {
    const bool norm = card.name.find("norm") != std::string::npos && !card.name.starts_with("gemm");
    for (const Case& one : card.cases) {
      if (!one.mutants || !norm) {
        continue;
      }
      const std::unique_ptr<Workload> workload = one.make(1);
      const Poisoned poisoned = workload->poisoned();
      ASSERT_NE(poisoned.workload, nullptr) << card.name;
      const OutputSpec output = workload->output();
      std::vector<TileValues> values =
          expectations(*workload, sample_tiles(output.rows, output.columns, 48, 1));
      for (TileValues& tile : values) {
        poisoned.workload->reference(tile.tile, tile.actual);
      }
      EXPECT_EQ(wrong_nan(values, poisoned.row), "") << card.name;
      ++asked;
    }
  }
  EXPECT_GE(asked, 7);
}

// Other seeds are other inputs: a gate on one draw could be passed by accident.
TEST(Cards, SeedsDrawOtherInputs) {
  for (const Card& card : cards()) {
    const Case& one = card.cases.front();
    const auto first = one.make(1);
    const auto second = one.make(2);
    EXPECT_FALSE(std::ranges::equal(first->inputs()[0].block(), second->inputs()[0].block()))
        << card.name;
  }
}

}  // namespace
}  // namespace fovea::lab
