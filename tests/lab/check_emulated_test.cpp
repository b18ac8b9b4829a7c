// Cards on the emulator: what is wrong is found, said how to run again, and found again.
#include "lab/emulated/check_emulated.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "kernels/pixels/pixels_params.hpp"
#include "lab/emulated/replay_case.hpp"

namespace fovea::lab {
namespace {

/// A workload that is as another one, for those that differ from it in one thing.
class LikeAnother : public Workload {
 public:
  explicit LikeAnother(std::unique_ptr<Workload> right) : right_(std::move(right)) {}

  [[nodiscard]] std::string describe() const override { return right_->describe(); }
  [[nodiscard]] std::span<const Tensor> inputs() const override { return right_->inputs(); }
  [[nodiscard]] OutputSpec output() const override { return right_->output(); }
  [[nodiscard]] Support can_run(const gpu::DeviceInfo& device) const override {
    return right_->can_run(device);
  }
  [[nodiscard]] gpu::KernelId kernel_of(const gpu::DeviceInfo& device,
                                        const Plan& plan) const override {
    return right_->kernel_of(device, plan);
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& plan) const override {
    return right_->launches(device, operands, plan);
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    right_->reference(tile, values);
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    right_->framework(tile, values);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override { return {}; }
  [[nodiscard]] TorchTask torch_task() const override { return right_->torch_task(); }
  [[nodiscard]] double flops() const override { return right_->flops(); }
  [[nodiscard]] DType operand_type() const override { return right_->operand_type(); }

 private:
  std::unique_ptr<Workload> right_;
};

/// What pixels_repeat is checked on, with more copies than the output has room for, or fewer.
class OtherCopies final : public LikeAnother {
 public:
  OtherCopies(std::unique_ptr<Workload> right, int more)
      : LikeAnother(std::move(right)), more_(more) {}

  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& plan) const override {
    std::vector<gpu::Launch> launches = LikeAnother::launches(device, operands, plan);
    pixels::RepeatParams params;
    std::memcpy(&params, launches.front().params.data(), sizeof params);
    params.copies += more_;
    launches.front().params = gpu::to_bytes(params);
    return launches;
  }

 private:
  int more_;
};

/// A workload of which all inputs are written just before, weights as well, for which no kernel
/// waits.
class WeightsJustWritten final : public LikeAnother {
 public:
  using LikeAnother::LikeAnother;
  [[nodiscard]] std::vector<std::size_t> written_just_before() const override {
    std::vector<std::size_t> all(inputs().size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

/// A card with one of its cases alone, which runs what `make` makes of its workload.
template <typename Make>
Card card_of_one(const std::string& name, const std::string& case_name, Make make) {
  Card card = *find_cards(std::vector{name}).front();
  const Case right = find_case(card, case_name);
  card.cases = {right};
  card.cases.front().make = [right, make](std::uint64_t seed) { return make(right.make(seed)); };
  card.emulated.clear();
  return card;
}

constexpr const char* kName = "rows3_width768";

Card card_with(int more) {
  return card_of_one("pixels_repeat", kName, [more](std::unique_ptr<Workload> right) {
    return std::make_unique<OtherCopies>(std::move(right), more);
  });
}

std::vector<CheckResult> check_of(const Card& card, EmulatedCheckOptions options) {
  const std::vector<const Card*> cards = {&card};
  std::vector<CheckResult> results;
  const int failed =
      check_emulated(cards, options, [&](const CheckResult& result) { results.push_back(result); });
  EXPECT_EQ(failed, std::ranges::count(results, false, &CheckResult::passed));
  return results;
}

class CheckEmulatedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
};

TEST_F(CheckEmulatedTest, WhatIsRightPasses) {
  const Card card = card_with(0);
  const auto results = check_of(card, {.schedules = 3});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].passed) << results[0].reason;
  const Replay replay = replay_case(card, {.case_name = kName, .schedule = 2});
  EXPECT_TRUE(replay.result.passed) << replay.result.reason;
  EXPECT_TRUE(replay.findings.empty());
}

TEST_F(CheckEmulatedTest, EachKernelMayRunOnItsLargestCaseAlone) {
  const Card& card = *find_cards(std::vector<std::string>{"layer_norm"}).front();
  const auto all = check_of(card, {.schedules = 1});
  const auto largest = check_of(card, {.schedules = 1, .largest_only = true});
  EXPECT_LT(largest.size(), all.size());
  const auto kernels = [](const std::vector<CheckResult>& results) {
    std::multiset<std::vector<std::string_view>> names;
    for (const CheckResult& result : results) {
      names.insert(result.kernels);
    }
    return names;
  };
  const auto once = kernels(largest);
  const auto names = kernels(all);
  const std::set<std::vector<std::string_view>> every(names.begin(), names.end());
  EXPECT_TRUE(std::ranges::equal(once, every));
}

TEST_F(CheckEmulatedTest, AFindingIsFoundAgain) {
  const Card card = card_with(100);
  for (const int arch : {90, 80}) {
    const auto results = check_of(card, {.arch = arch, .seed = 4, .schedules = 2});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_FALSE(results[0].passed);
    EXPECT_NE(results[0].reason.find("out of bounds"), std::string::npos) << results[0].reason;
    const std::string again = "again: fovea kernel emulate pixels_repeat" +
                              std::string(arch == 80 ? " --device emu:sm_80" : "") +
                              " --case rows3_width768 --seed 4 --schedule 0";
    EXPECT_NE(results[0].reason.find(again), std::string::npos) << results[0].reason;

    const Replay replay = replay_case(card, {.arch = arch, .case_name = kName, .seed = 4});
    EXPECT_FALSE(replay.result.passed);
    ASSERT_EQ(replay.findings.size(), 1U);
    EXPECT_EQ(replay.findings[0].kind, emu::FindingKind::kOutOfBounds);
    EXPECT_NE(replay.findings[0].kernel.find("pixels_repeat"), std::string::npos);
  }
}

TEST_F(CheckEmulatedTest, AWrongResultIsFoundAgain) {
  const Card card = card_with(-1);
  const auto results = check_of(card, {.schedules = 2});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].passed);
  for (const int schedule : {0, 1}) {
    const Replay replay = replay_case(card, {.case_name = kName, .schedule = schedule});
    EXPECT_FALSE(replay.result.passed);
    EXPECT_NE(replay.result.reason, "");
    EXPECT_TRUE(replay.findings.empty());
  }
}

TEST_F(CheckEmulatedTest, WhatAGridReadsBeforeItIsWrittenIsFoundAgain) {
  constexpr const char* kCase = "m1_n112_k16";
  const Card card = card_of_one("gemm_qkv_bf16", kCase, [](std::unique_ptr<Workload> right) {
    return std::make_unique<WeightsJustWritten>(std::move(right));
  });
  const auto results = check_of(card, {.seed = 3, .schedules = 2});
  ASSERT_FALSE(results.empty());
  EXPECT_FALSE(results[0].passed);
  EXPECT_NE(results[0].reason.find("fovea_writer"), std::string::npos) << results[0].reason;
  EXPECT_NE(results[0].reason.find("--seed 3 --schedule 0 --overlapping"), std::string::npos)
      << results[0].reason;

  ReplayOptions again{.case_name = kCase, .plan = results[0].what, .seed = 3};
  EXPECT_TRUE(replay_case(card, again).result.passed);
  again.overlapping = true;
  const Replay replay = replay_case(card, again);
  EXPECT_FALSE(replay.result.passed);
  ASSERT_EQ(replay.findings.size(), 1U);
  EXPECT_EQ(replay.findings[0].kind, emu::FindingKind::kRace);
  EXPECT_TRUE(replay_case(*find_cards(std::vector<std::string>{"gemm_qkv_bf16"}).front(), again)
                  .result.passed);
}

// One that fills pipelines, which is not among its cases; where one is named, that alone.
TEST_F(CheckEmulatedTest, TheFirstEmulatedProblemIsCheckedToo) {
  Card card = card_with(0);
  card.emulated = {"rows=5,width=8", "rows=6,width=8"};
  const auto names = [&](const EmulatedCheckOptions& options) {
    std::vector<std::string> found;
    for (const CheckResult& result : check_of(card, options)) {
      found.push_back(result.case_name);
    }
    return found;
  };
  EXPECT_EQ(names({.schedules = 1}), (std::vector<std::string>{kName, card.emulated.front()}));
  EXPECT_EQ(names({.schedules = 1, .only_case = kName}), std::vector<std::string>{kName});
}

TEST_F(CheckEmulatedTest, OutputsAreShownAndMayBeRefused) {
  const Card card = card_with(0);
  std::mutex mutex;
  int shown = 0;
  const auto results = check_of(
      card, {.schedules = 1, .inspect = [&](const EmulatedJob& job, const CaseOutputs& ran) {
               const std::lock_guard lock(mutex);
               ++shown;
               EXPECT_EQ(job.card, &card);
               EXPECT_EQ(ran.outputs.size(), 1U);
               EXPECT_EQ(ran.outputs[0].size(), ran.workload.output().bytes());
               EXPECT_EQ(ran.launches.size(), 1U);
               return std::string("refused");
             }});
  EXPECT_EQ(shown, 1);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].passed);
  EXPECT_NE(results[0].reason.find("refused"), std::string::npos);
}

TEST(OrderTest, EachScheduleHasASeedOfItsOwn) {
  EXPECT_NE(order_seed(1, 0), order_seed(1, 1));
  EXPECT_NE(order_seed(1, 1000), order_seed(2, 0));
}

TEST(OrderTest, WhatIsRunAgainIsQuotedForShells) {
  EXPECT_EQ(replay_arguments("attention", {.case_name = "b1_h2", .plan = "wgmma 64x64, 2 warps"}),
            "attention --case b1_h2 --plan 'wgmma 64x64, 2 warps' --seed 1 --schedule 0");
  EXPECT_EQ(replay_arguments("norm", {.case_name = "b1", .overlapping = true}),
            "norm --case b1 --seed 1 --schedule 0 --overlapping");
}

}  // namespace
}  // namespace fovea::lab
