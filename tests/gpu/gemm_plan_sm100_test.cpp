// Which GEMM kernel is planned on Blackwell's data-centre GPUs, and what it is launched with; no
// GPU needed.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "gpu/bare_device.hpp"
#include "gpu/gemm_plans.hpp"

namespace fovea::gpu {
namespace {

constexpr int kSms = 148;

DeviceInfo blackwell(int minor) {
  return {.name = "made up",
          .compute_major = 10,
          .compute_minor = minor,
          .sm_count = kSms,
          .shared_bytes_per_block = 232448};
}

/// Keeps the tensor maps that are asked for.
class MapDevice final : public BareDevice {
 public:
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] TensorMap encode(const TensorMapDesc& desc) override {
    maps.push_back(desc);
    return {};
  }

  std::vector<TensorMapDesc> maps;

 private:
  DeviceInfo info_ = blackwell(0);
};

class BlackwellGemmPlans : public PlansOfKernels {};

gemm::Params params_of(const Launch& launch) {
  gemm::Params params;
  EXPECT_EQ(launch.params.size(), sizeof(params));
  std::memcpy(&params, launch.params.data(), sizeof(params));
  return params;
}

TEST_F(BlackwellGemmPlans, ArePairsOfCtas) {
  for (const std::int64_t rows : {1, 255, 257, 4117, 928256}) {
    for (const std::int64_t n : {16, 768, 1152, 4304}) {
      const auto plans = gemm_plans({.m = rows, .n = n, .k = 768}, blackwell(0));
      ASSERT_FALSE(plans.empty()) << rows << " x " << n;
      for (const GemmPlan& plan : plans) {
        EXPECT_EQ(plan.design, GemmDesign::kPair) << to_string(plan);
        EXPECT_EQ(plan.cluster(), 2) << to_string(plan);
        EXPECT_EQ(plan.grid % 2, 0) << to_string(plan);
        EXPECT_LE(plan.grid, kSms) << to_string(plan);
        EXPECT_LE(plan.shared_bytes(), blackwell(0).shared_bytes_per_block) << to_string(plan);
      }
    }
  }
}

TEST_F(BlackwellGemmPlans, TakeWideTilesForManyRowsAndNarrowOnesForFew) {
  EXPECT_EQ(gemm_plans(patch_embedding(4736), blackwell(0)).front().columns, 256);
  EXPECT_EQ(gemm_plans({.m = 196, .n = 768, .k = 768}, blackwell(0)).front().columns, 64);
}

// A comes from L2 once where a panel of it has room for all of K, which is small.
TEST_F(BlackwellGemmPlans, KeepAPanelOfAWhereItHoldsK) {
  for (const DType type : {DType::kE4M3, DType::kI8, DType::kMXFP8}) {
    GemmProblem problem{.m = 232064, .n = 768, .k = 768, .a = type, .b = type};
    problem.epilogue = GemmEpilogue::kResidual;
    const GemmPlan fits = gemm_plans(problem, blackwell(0)).front();
    EXPECT_EQ(fits.k_blocks, 6) << to_string(fits);
    EXPECT_NE(to_string(fits).find("6 K blocks of A"), std::string::npos) << to_string(fits);
    problem.k += 16;
    for (const GemmPlan& plan : gemm_plans(problem, blackwell(0))) {
      EXPECT_EQ(plan.k_blocks, 0) << to_string(plan);
    }
    const Support longer = tuned_gemm(problem, blackwell(0), fits.kernel, fits).support;
    EXPECT_NE(longer.why.find("has 6 blocks of K, but the problem needs 7"), std::string::npos)
        << longer.why;
    gemm::Tuning tuning = fits;
    tuning.raster = 4;
    problem.k -= 16;
    const Support rastered = tuned_gemm(problem, blackwell(0), fits.kernel, tuning).support;
    EXPECT_NE(rastered.why.find("needs tiles in row order"), std::string::npos) << rastered.why;
    for (const int blocks : {-1, 15, 1 << 18}) {
      tuning = fits;
      tuning.k_blocks = blocks;
      const Support support = tuned_gemm(problem, blackwell(0), fits.kernel, tuning).support;
      EXPECT_NE(support.why.find("up to 14 blocks of K"), std::string::npos) << support.why;
    }
  }
}

// One tile in a row, or one tile a pair: A passes as often without it.
TEST_F(BlackwellGemmPlans, KeepNoPanelForOneTile) {
  GemmProblem problem{.m = 18944, .n = 256, .k = 768, .a = DType::kE4M3, .b = DType::kE4M3};
  problem.epilogue = GemmEpilogue::kResidual;
  EXPECT_EQ(gemm_plans(problem, blackwell(0)).front().k_blocks, 0);
  problem.m = 1568;
  problem.n = 2304;
  EXPECT_EQ(gemm_plans(problem, blackwell(0)).front().k_blocks, 0);
}

// A warp more fills it.
TEST_F(BlackwellGemmPlans, HaveAWarpForThePanel) {
  const std::vector<GemmPlan> plans = gemm_plans(patch_embedding(4736), blackwell(0));
  for (const GemmPlan& plan : plans) {
    EXPECT_EQ(plan.threads(), plan.k_blocks > 0 ? 352 : 320) << to_string(plan);
  }
  EXPECT_TRUE(std::ranges::any_of(plans, [](const GemmPlan& plan) { return plan.k_blocks > 0; }));
}

// kind::i8 is 10.0's alone; the others are its family's.
TEST_F(BlackwellGemmPlans, LeaveIntegersToTheB200) {
  EXPECT_TRUE(can_run(patch_embedding(4), blackwell(0)));
  const Support integers = can_run(patch_embedding(4), blackwell(3));
  EXPECT_FALSE(integers);
  EXPECT_NE(integers.why.find("no kernel for"), std::string::npos) << integers.why;
  EXPECT_TRUE(can_run(GemmProblem{.m = 77, .n = 144, .k = 48}, blackwell(3)));
  EXPECT_TRUE(can_run(GemmProblem{.m = 77,
                                  .n = 144,
                                  .k = 48,
                                  .a = DType::kE4M3,
                                  .b = DType::kE4M3,
                                  .epilogue = GemmEpilogue::kResidual},
                      blackwell(3)));
}

// A warp's lanes share four rows of the position table where images fill the tiles.
TEST_F(BlackwellGemmPlans, TakeFewTokensOfManyImages) {
  MapDevice device;
  const gemm::Params many = params_of(gemm_launch(device, patch_embedding(64), kOperands));
  EXPECT_EQ(many.epilogue.box_tokens, 4);
  EXPECT_EQ(many.epilogue.box_images, 32);
  EXPECT_EQ(many.epilogue.tokens, 196);
  EXPECT_EQ(many.epilogue.images, 64);
  EXPECT_EQ(many.row_tiles, 49 * 2);
  ASSERT_EQ(device.maps.size(), 3U);
  EXPECT_EQ(device.maps[0].box[1] * device.maps[0].box[2], 128U) << "a CTA's rows of A";
  EXPECT_EQ(device.maps[2].box[1] * device.maps[2].box[2], 32U) << "a warp's rows of the output";
  const gemm::Params few = params_of(gemm_launch(device, patch_embedding(5), kOperands));
  EXPECT_EQ(few.epilogue.box_tokens, 128);
  EXPECT_EQ(few.epilogue.box_images, 1);
  EXPECT_EQ(few.epilogue.position_rows, 196);
}

// Boxes of the output are as wide as their swizzle, and a warp's half of the columns is whole
// boxes.
TEST_F(BlackwellGemmPlans, StoreBoxesAsWideAsTheirSwizzle) {
  for (const DType output : {DType::kBF16, DType::kI8}) {
    GemmProblem problem{.m = 4096, .n = 3072, .k = 768, .a = DType::kI8, .b = DType::kI8};
    problem.epilogue = GemmEpilogue::kGelu;
    problem.output = output;
    for (const GemmPlan& plan : gemm_plans(problem, blackwell(0))) {
      MapDevice device;
      (void)gemm_launch(device, problem, kOperands, plan);
      const TensorMapDesc& map = device.maps.back();
      const auto bytes = static_cast<int>(map.box[0] * size_of(output));
      const int swizzle = map.swizzle == Swizzle::k128  ? 128
                          : map.swizzle == Swizzle::k64 ? 64
                          : map.swizzle == Swizzle::k32 ? 32
                                                        : 0;
      EXPECT_EQ(bytes, swizzle) << to_string(plan);
      EXPECT_EQ(plan.columns / 2 % static_cast<int>(map.box[0]), 0) << to_string(plan);
    }
  }
}

// Maps of atoms of 512 bytes, in halves: one atom of rows for A, and as many as a tile's columns
// may touch for B.
TEST_F(BlackwellGemmPlans, LoadScalesOfBlocksByAtoms) {
  const GemmProblem problem{.m = 4000, .n = 2304, .k = 720, .a = DType::kMXFP8, .b = DType::kMXFP8};
  GemmOperands operands = kOperands;
  operands.a_scales = 8192;
  operands.b_scales = 12288;
  for (const GemmPlan& plan : gemm_plans(problem, blackwell(0))) {
    MapDevice device;
    const Launch launch = gemm_launch(device, problem, operands, plan);
    EXPECT_EQ(launch.params.size(), sizeof(gemm::BlockScaledParams));
    ASSERT_EQ(device.maps.size(), 5U);
    const auto& [a, b] = std::tie(device.maps[3], device.maps[4]);
    EXPECT_EQ(a.address, 8192U);
    EXPECT_EQ(a.dims[0] * a.dims[1] * a.dims[2], 32U * 6 * 512) << "32 atoms of rows, 6 along K";
    EXPECT_EQ(a.box[0] * a.box[1] * a.box[2], 512U);
    EXPECT_EQ(b.address, 12288U);
    EXPECT_EQ(b.dims[0] * b.dims[1] * b.dims[2], 18U * 6 * 512);
    for (int column = 0; column < 2304; column += plan.columns) {
      const int last = (column + plan.columns - 1) / 128;
      EXPECT_LE(last, column / 128 + static_cast<int>(b.box[2]) - 1) << to_string(plan);
    }
  }
  for (DevicePtr GemmOperands::* const scales :
       {&GemmOperands::a_scales, &GemmOperands::b_scales}) {
    GemmOperands without = operands;
    without.*scales = 0;
    MapDevice device;
    EXPECT_THROW((void)gemm_launch(device, problem, without), Error);
  }
}

TEST_F(BlackwellGemmPlans, RefuseTilesThatTensorMemoryHasNot) {
  const GemmProblem problem{.m = 4096, .n = 768, .k = 768};
  const GemmPlan plan = gemm_plans(problem, blackwell(0)).front();
  for (const int columns : {96, 320}) {
    gemm::Tuning tuning = plan;
    tuning.columns = columns;
    const Support support = tuned_gemm(problem, blackwell(0), plan.kernel, tuning).support;
    EXPECT_NE(support.why.find("64, 128, 192 or 256 columns"), std::string::npos) << support.why;
  }
  const GemmProblem blocks{.m = 4096, .n = 768, .k = 768, .a = DType::kMXFP8, .b = DType::kMXFP8};
  const GemmPlan of_blocks = gemm_plans(blocks, blackwell(0)).front();
  gemm::Tuning wide = of_blocks;
  wide.columns = 256;
  EXPECT_NE(tuned_gemm(blocks, blackwell(0), of_blocks.kernel, wide)
                .support.why.find("do not fit tensor memory"),
            std::string::npos);
  gemm::Tuning tuning = plan;
  tuning.stages = 10;
  EXPECT_NE(tuned_gemm(problem, blackwell(0), plan.kernel, tuning)
                .support.why.find("bytes of shared memory"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::gpu
