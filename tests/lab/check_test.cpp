// A whole check on the host, seed after seed: a kernel that is right, and one that leaves work
// undone.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "gpu/host_device.hpp"
#include "kernels/pixels/pixels_params.hpp"
#include "lab/check_cards.hpp"

namespace fovea::lab {
namespace {

/// Carries out the launches of pixels_repeat, `missing` copies short.
class RepeatingDevice final : public gpu::HostDevice {
 public:
  explicit RepeatingDevice(std::int64_t missing) : missing_(missing) {}

  [[nodiscard]] const gpu::DeviceInfo& info() const override { return info_; }
  [[nodiscard]] gpu::Module load(std::span<const std::byte> /*image*/) override { return {}; }
  [[nodiscard]] gpu::Kernel find(gpu::Module /*module*/, std::string_view /*entry*/) override {
    return {};
  }
  void launch(gpu::Kernel /*kernel*/, const gpu::LaunchConfig& /*config*/,
              std::span<const std::byte> bytes, gpu::Stream& /*stream*/) override {
    pixels::RepeatParams params;
    ASSERT_EQ(bytes.size(), sizeof params);
    std::memcpy(&params, bytes.data(), sizeof params);
    for (std::int64_t copy = 0; copy < params.copies - missing_; ++copy) {
      std::copy_n(params.source, params.size, params.output + copy * params.size);
    }
  }

 private:
  std::int64_t missing_;
  gpu::DeviceInfo info_{.name = "a device in host memory", .compute_major = 9, .sm_count = 132};
};

struct Outcome {
  int failed = 0;
  std::vector<SeedResult> seeds;
  std::vector<CheckResult> results;
};

Outcome check_with(std::int64_t missing) {
  RepeatingDevice device(missing);
  const std::vector<std::string> names = {"pixels_repeat"};
  CheckOptions options;
  options.seed = 5;
  options.seeds = 3;
  options.only_case = "rows3_width768";
  Outcome outcome;
  outcome.failed = check(
      device, find_cards(names), options,
      [&](const CheckResult& result) { outcome.results.push_back(result); },
      [&](const SeedResult& seed) { outcome.seeds.push_back(seed); });
  return outcome;
}

class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::kernel_images().empty()) {
      GTEST_SKIP() << "built without the CUDA compiler";
    }
  }
};

TEST_F(CheckTest, GoesFromSeedToSeed) {
  const Outcome outcome = check_with(0);
  EXPECT_EQ(outcome.failed, 0);
  ASSERT_EQ(outcome.seeds.size(), 3U);
  std::size_t checked = 0;
  for (std::size_t i = 0; i < outcome.seeds.size(); ++i) {
    EXPECT_EQ(outcome.seeds[i].seed, 5 + i);
    EXPECT_EQ(outcome.seeds[i].checked, 5);  // the kernel, two tiles spoiled, two mutants
    checked += static_cast<std::size_t>(outcome.seeds[i].checked);
  }
  EXPECT_EQ(outcome.results.size(), checked);
}

TEST_F(CheckTest, EveryFailureNamesItsSeed) {
  const Outcome outcome = check_with(1);
  std::vector<std::uint64_t> seeds;
  for (const CheckResult& result : outcome.results) {
    if (!result.passed) {
      EXPECT_NE(result.reason, "");
      seeds.push_back(result.seed);
    }
  }
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{5, 6, 7}));
  EXPECT_EQ(outcome.failed, 3);
}

}  // namespace
}  // namespace fovea::lab
