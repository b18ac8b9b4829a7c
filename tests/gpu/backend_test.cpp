// What the GPU backend decides without a GPU: slices, and whether problems can run.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "gpu/bare_device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/gpu_backend.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/pool.hpp"

namespace fovea::gpu {
namespace {

using ops::LayerNormProblem;
using ops::PoolProblem;

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
    EXPECT_NE(has_kernels_for(device).why.find("CUDA compiler"), std::string::npos);
    return;
  }
  EXPECT_TRUE(has_kernels_for(device));
  device.compute_major = 8;
  for (const int minor : {0, 6, 7, 9}) {
    device.compute_minor = minor;
    EXPECT_TRUE(has_kernels_for(device)) << minor;
  }
  for (const auto& [major, minor] : {std::pair{10, 3}, std::pair{12, 0}, std::pair{20, 0}}) {
    device.compute_major = major;
    device.compute_minor = minor;
    EXPECT_TRUE(has_kernels_for(device)) << major;
  }
  device.compute_major = 7;
  device.compute_minor = 5;
  EXPECT_EQ(has_kernels_for(device).why,
            "unsupported compute capability 7.5 of a Hopper GPU; expected 8.0 or later; use "
            "--device cpu");
}

TEST(CanRunTest, NormsGiveReasons) {
  const LayerNormProblem good{
      .rows = 196, .width = 768, .input = DType::kBF16, .output = DType::kBF16};
  EXPECT_TRUE(can_run(good, hopper()));
  LayerNormProblem bad = good;
  bad.width = 4096;
  EXPECT_FALSE(can_run(bad, hopper()));
  bad = good;
  bad.output = DType::kI8;  // without scales for its rows
  EXPECT_FALSE(can_run(bad, hopper()));
  bad = good;
  bad.output = DType::kE4M3;
  EXPECT_EQ(can_run(bad, hopper()).why,
            "unsupported output type e4m3; expected bf16, f32, i8 or mxfp8");
}

TEST(CanRunTest, RowNormsGiveReasons) {
  if (kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  for (const std::int64_t width : {128, 768, 1024, 1152, 1536, 2048}) {
    EXPECT_TRUE(can_run(RowNormProblem{.rows = 196, .width = width}, hopper())) << width;
  }
  EXPECT_FALSE(can_run(RowNormProblem{.rows = 196, .width = 4096}, hopper()));
  EXPECT_FALSE(can_run(RowNormProblem{.rows = 196, .width = 768, .input = DType::kF32}, hopper()));
  DeviceInfo ampere = hopper();
  ampere.compute_major = 8;
  EXPECT_FALSE(can_run(RowNormProblem{.rows = 196, .width = 768}, ampere));
}

// What the reference and the CPU compute and no kernel does: it is refused, not computed otherwise.
TEST(CanRunTest, OperatorsWithoutKernelsGiveReasons) {
  ops::LinearProblem linear{.rows = 196,
                            .in = 768,
                            .out = 768,
                            .epilogue = ops::Epilogue::kGeluTanh,
                            .input = DType::kBF16,
                            .output = DType::kBF16};
  EXPECT_TRUE(can_run(linear, hopper()));
  linear.epilogue = ops::Epilogue::kGeluErf;
  EXPECT_EQ(can_run(linear, hopper()).why, "GPUs compute GELU by tanh, not by erf");
  EXPECT_THROW((void)gemm_problem(linear), Error);
  ops::PatchEmbedProblem patches{.images = 2,
                                 .tokens = 4,
                                 .patch_elements = 768,
                                 .hidden = 768,
                                 .input = DType::kBF16,
                                 .output = DType::kBF16};
  EXPECT_TRUE(can_run(patches, hopper()));
  patches.prefix = 1;
  EXPECT_EQ(can_run(patches, hopper()).why,
            "GPUs do not support tokens before the patches of an image");
  EXPECT_THROW((void)gemm_problem(patches), Error);
  ops::ProjectProblem token{
      .sequences = 2, .tokens = 4, .hidden = 768, .out = 768, .input = DType::kBF16};
  EXPECT_TRUE(can_run(token, hopper()));
  token.projected = false;
  EXPECT_EQ(can_run(token, hopper()).why,
            "text heads without a projection are not supported on GPUs");
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
                                .mlp = shape.mlp,
                                .input = DType::kBF16};
      EXPECT_TRUE(can_run(problem, hopper())) << to_string(problem);
      EXPECT_GT(pool_workspace_bytes(problem), 0U);
    }
  }
  EXPECT_FALSE(can_run(
      PoolProblem{
          .images = 1, .tokens = 4, .heads = 32, .hidden = 512, .mlp = 64, .input = DType::kBF16},
      hopper()));
  EXPECT_NE(can_run(PoolProblem{.images = 1,
                                .tokens = 9000,
                                .heads = 4,
                                .hidden = 512,
                                .mlp = 64,
                                .input = DType::kBF16},
                    hopper())
                .why.find("tokens"),
            std::string::npos);
}

// An image's results must not depend on how many there are: more images are more of the same CTAs,
// and what the linear layers' kernels for many rows do differently is in kernels/pool/linear.cu.
TEST(PoolLaunchesTest, EachImageIsComputedAlike) {
  struct : BareDevice {
    [[nodiscard]] const DeviceInfo& info() const override { return hopper_; }
    DeviceInfo hopper_ = hopper();
  } device;
  const PoolProblem one{
      .images = 1, .tokens = 196, .heads = 12, .hidden = 768, .mlp = 3072, .input = DType::kBF16};
  PoolProblem many = one;
  many.images = 200;
  const std::vector<Launch> alone = pool_launches(device, one, {});
  const std::vector<Launch> together = pool_launches(device, many, {});
  ASSERT_EQ(alone.size(), together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].kernel, together[i].kernel);
    EXPECT_EQ(alone[i].config.dynamic_shared_bytes, together[i].config.dynamic_shared_bytes);
  }
}

// The last slice of a batch has fewer images than the one that its memory is measured for.
TEST(PoolWorkspaceTest, HoldsEverySmallerSlice) {
  PoolProblem problem{.images = 170,
                      .tokens = 576,
                      .heads = 16,
                      .hidden = 1152,
                      .mlp = 4304,
                      .input = DType::kBF16};
  const std::size_t most = pool_workspace_bytes(problem);
  while (--problem.images > 0) {
    ASSERT_LE(pool_workspace_bytes(problem), most) << problem.images;
  }
}

}  // namespace
}  // namespace fovea::gpu
