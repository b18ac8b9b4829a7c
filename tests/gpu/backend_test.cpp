// What the GPU backend decides without a GPU: slices, and whether problems can run.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "gpu/gpu_backend.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/pool.hpp"

namespace fovea::gpu {
namespace {

DeviceInfo hopper() {
  return {.name = "a Hopper GPU",
          .compute_major = 9,
          .sm_count = 132,
          .memory_bytes = std::size_t{80} << 30,
          .shared_bytes_per_block = 227 * 1024};
}

TEST(SlicesTest, CoverTheBatchAndAreNoLargerThanAllowed) {
  for (std::int64_t images = 1; images < 700; ++images) {
    for (const std::int64_t most : {1, 3, 32, 100, 256}) {
      const std::vector<std::int64_t> slices = plan_slices(images, most);
      ASSERT_EQ(std::accumulate(slices.begin(), slices.end(), std::int64_t{0}), images)
          << images << " by " << most;
      ASSERT_GE(std::ranges::min(slices), 1) << images << " by " << most;
      ASSERT_LE(std::ranges::max(slices), most) << images << " by " << most;
    }
  }
}

TEST(SlicesTest, StartWithASmallOneAndGoOnInRowsThatTilesDivide) {
  using Slices = std::vector<std::int64_t>;
  EXPECT_EQ(plan_slices(0, 512), Slices());
  EXPECT_EQ(plan_slices(256, 512), Slices({256}));
  EXPECT_EQ(plan_slices(300, 512), Slices({128, 172}));
  EXPECT_EQ(plan_slices(1024, 512), Slices({128, 448, 448}));
  EXPECT_EQ(plan_slices(1000, 512), Slices({128, 448, 424}));
}

TEST(KernelsTest, AreMissingForGpusThatTheyWereNotBuiltFor) {
  DeviceInfo device = hopper();
  if (kernel_images().empty()) {
    EXPECT_NE(reason_without_kernels(device).find("CUDA compiler"), std::string::npos);
    return;
  }
  EXPECT_EQ(reason_without_kernels(device), "");
  device.compute_major = 8;
  for (const int minor : {0, 6, 7, 9}) {
    device.compute_minor = minor;
    EXPECT_EQ(reason_without_kernels(device), "") << minor;
  }
  for (const auto& [major, minor] : {std::pair{7, 5}, std::pair{9, 1}, std::pair{12, 0}}) {
    device.compute_major = major;
    device.compute_minor = minor;
    const std::string reason = reason_without_kernels(device);
    EXPECT_NE(reason.find(fmt::format("sm_{}", device.arch())), std::string::npos) << reason;
    EXPECT_NE(reason.find("--device cpu"), std::string::npos) << reason;
  }
}

TEST(CanRunTest, NormsGiveReasons) {
  const LayerNormProblem good{.rows = 196, .width = 768};
  EXPECT_EQ(can_run(good, hopper()), "");
  LayerNormProblem bad = good;
  bad.width = 4096;
  EXPECT_NE(can_run(bad, hopper()), "");
  bad = good;
  bad.output = DType::kI8;  // without scales for its rows
  EXPECT_NE(can_run(bad, hopper()), "");
  bad = good;
  bad.output = DType::kE4M3;
  DeviceInfo ampere = hopper();
  ampere.compute_major = 8;
  EXPECT_NE(can_run(bad, ampere), "");
}

TEST(CanRunTest, RowNormsGiveReasons) {
  if (kernel_images().empty()) {
    GTEST_SKIP() << "built without kernels";
  }
  for (const std::int64_t width : {128, 768, 1024, 1152, 1536, 2048}) {
    EXPECT_EQ(can_run(RowNormProblem{.rows = 196, .width = width}, hopper()), "") << width;
  }
  EXPECT_NE(can_run(RowNormProblem{.rows = 196, .width = 4096}, hopper()), "");
  EXPECT_NE(can_run(RowNormProblem{.rows = 196, .width = 768, .input = DType::kF32}, hopper()), "");
  DeviceInfo ampere = hopper();
  ampere.compute_major = 8;
  EXPECT_NE(can_run(RowNormProblem{.rows = 196, .width = 768}, ampere), "");
}

TEST(CanRunTest, PoolsOfEveryCheckpointRun) {
  struct Shape {
    std::int64_t tokens, heads, hidden, mlp;
  };
  for (const Shape& shape :
       {Shape{196, 12, 768, 3072}, Shape{49, 12, 768, 3072}, Shape{1024, 16, 1024, 4096},
        Shape{729, 16, 1152, 4304}, Shape{256, 16, 1536, 6144}, Shape{16, 4, 128, 512}}) {
    for (const std::int64_t images : {1, 7, 300}) {
      const PoolProblem problem{.images = images,
                                .tokens = shape.tokens,
                                .heads = shape.heads,
                                .hidden = shape.hidden,
                                .mlp = shape.mlp};
      EXPECT_EQ(can_run(problem, hopper()), "") << to_string(problem);
      EXPECT_GT(pool_workspace_bytes(problem, hopper()), 0U);
    }
  }
  EXPECT_NE(can_run(PoolProblem{.images = 1, .tokens = 4, .heads = 32, .hidden = 512, .mlp = 64},
                    hopper()),
            "");
}

// The last slice of a batch has fewer images than the one that its memory is measured for, and few
// images are split among many blocks, whose partial sums take more than they save.
TEST(PoolWorkspaceTest, HoldsEverySmallerSlice) {
  PoolProblem problem{.images = 170, .tokens = 576, .heads = 16, .hidden = 1152, .mlp = 4304};
  const std::size_t most = pool_workspace_bytes(problem, hopper());
  while (--problem.images > 0) {
    ASSERT_LE(pool_workspace_bytes(problem, hopper()), most) << problem.images;
  }
}

}  // namespace
}  // namespace fovea::gpu
