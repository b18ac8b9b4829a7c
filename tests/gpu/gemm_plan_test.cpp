// Which GEMM kernel is planned for which problem, and what is refused; no GPU needed.
#include <cstdint>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {
namespace {

constexpr std::size_t kSharedBytes = 232448;  // that a block of Hopper can ask for

DeviceInfo hopper() {
  return {.name = "H200",
          .compute_major = 9,
          .compute_minor = 0,
          .sm_count = 132,
          .shared_bytes_per_block = kSharedBytes};
}

class GemmPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) {
      GTEST_SKIP() << "built without kernels";
    }
  }
};

TEST_F(GemmPlans, KeepsWeightsOfLargePatchEmbeddingsOnChip) {
  const GemmProblem problem{.m = 928256,
                            .n = 768,
                            .k = 768,
                            .a = DType::kU8,
                            .b = DType::kI8,
                            .epilogue = GemmEpilogue::kPosition,
                            .tokens = 196};
  const auto plans = gemm_plans(problem, hopper());
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans.front().design, GemmDesign::kResident);
  EXPECT_EQ(plans.front().columns, 192);
  EXPECT_EQ(plans.front().grid, 132);
}

TEST_F(GemmPlans, AddsResidualsInTilesOf128Columns) {
  for (const DType type : {DType::kBF16, DType::kE4M3, DType::kI8}) {
    const GemmProblem problem{.m = 232064,
                              .n = 768,
                              .k = 3072,
                              .a = type,
                              .b = type,
                              .epilogue = GemmEpilogue::kResidual};
    const auto plans = gemm_plans(problem, hopper());
    ASSERT_FALSE(plans.empty());
    EXPECT_EQ(plans.front().columns, 128) << to_string(problem);
    EXPECT_EQ(plans.front().rows(), 128) << to_string(problem);
  }
}

TEST_F(GemmPlans, TakesSmallTilesForOneImage) {
  for (const std::int64_t columns : {768, 2304, 3072}) {
    const GemmProblem problem{.m = 196, .n = columns, .k = 768};
    const auto plans = gemm_plans(problem, hopper());
    ASSERT_FALSE(plans.empty());
    EXPECT_EQ(plans.front().rows(), 64) << columns;
    EXPECT_LE(plans.front().grid, 132) << columns;
  }
}

// What the encoder asks for in int8: pixels as they are, scales for the rows of norms, and results
// of GELU in 8 bits.
TEST_F(GemmPlans, RunsTheProductsOfInt8WithinSharedMemory) {
  struct Widths {
    std::int64_t hidden, mlp;
  };
  for (const Widths widths : {Widths{128, 512}, Widths{768, 3072}, Widths{1024, 4096},
                              Widths{1152, 4304}, Widths{1536, 6144}}) {
    const GemmProblem bytes{.a = DType::kI8, .b = DType::kI8};
    GemmProblem embed = bytes;
    embed.a = DType::kU8;
    embed.n = widths.hidden;
    embed.k = 768;
    embed.epilogue = GemmEpilogue::kPosition;
    embed.tokens = 196;
    GemmProblem qkv = bytes;
    qkv.n = 3 * widths.hidden;
    qkv.k = widths.hidden;
    qkv.row_scale = true;
    GemmProblem fc1 = qkv;
    fc1.n = widths.mlp;
    fc1.epilogue = GemmEpilogue::kGelu;
    fc1.output = DType::kI8;
    GemmProblem fc2 = bytes;
    fc2.n = widths.hidden;
    fc2.k = widths.mlp;
    fc2.epilogue = GemmEpilogue::kResidual;
    for (GemmProblem problem : {embed, qkv, fc1, fc2}) {
      for (const std::int64_t images : {1, 32, 512}) {
        problem.m = images * 196;
        EXPECT_EQ(can_run(problem, hopper()), "") << to_string(problem);
        for (const GemmPlan& plan : gemm_plans(problem, hopper())) {
          EXPECT_LE(plan.shared_bytes(), kSharedBytes) << to_string(plan);
        }
      }
    }
  }
}

TEST_F(GemmPlans, RunsTheWidthsOfEveryCheckpointWithinSharedMemory) {
  struct Widths {
    std::int64_t hidden, mlp, patch;
  };
  for (const Widths widths : {Widths{768, 3072, 768}, Widths{1024, 4096, 768},
                              Widths{1152, 4304, 592}, Widths{1536, 6144, 768}}) {
    for (const DType type : {DType::kBF16, DType::kE4M3}) {
      for (const std::int64_t rows : {1, 196, 729 * 3, 1024 * 64}) {
        for (const auto& [n, k, epilogue] :
             {std::tuple{widths.hidden, widths.patch, GemmEpilogue::kPosition},
              std::tuple{3 * widths.hidden, widths.hidden, GemmEpilogue::kBias},
              std::tuple{widths.mlp, widths.hidden, GemmEpilogue::kGelu},
              std::tuple{widths.hidden, widths.mlp, GemmEpilogue::kResidual}}) {
          GemmProblem problem{.m = rows, .n = n, .k = k, .a = type, .b = type};
          problem.epilogue = epilogue;
          problem.tokens = epilogue == GemmEpilogue::kPosition ? 196 : 0;
          EXPECT_EQ(can_run(problem, hopper()), "") << to_string(problem);
          for (const GemmPlan& plan : gemm_plans(problem, hopper())) {
            EXPECT_LE(plan.shared_bytes(), kSharedBytes) << to_string(plan);
            EXPECT_GE(plan.grid, 1) << to_string(plan);
          }
        }
      }
    }
  }
}

TEST_F(GemmPlans, NormalisesRowsBeforeQkvAndFc1InBf16Alone) {
  for (const std::int64_t hidden : {128, 768, 1024, 1152, 1536}) {
    GemmProblem problem{.m = 729, .n = 3 * hidden, .k = hidden, .row_norm = true};
    EXPECT_EQ(can_run(problem, hopper()), "") << to_string(problem);
    problem.epilogue = GemmEpilogue::kGelu;
    EXPECT_EQ(can_run(problem, hopper()), "") << to_string(problem);
    GemmProblem same = problem;
    same.row_norm = false;
    EXPECT_EQ(gemm_plans(problem, hopper()).size(), gemm_plans(same, hopper()).size());
    problem.epilogue = GemmEpilogue::kResidual;
    EXPECT_NE(can_run(problem, hopper()), "") << to_string(problem);
    problem.epilogue = GemmEpilogue::kBias;
    problem.a = problem.b = DType::kE4M3;
    EXPECT_NE(can_run(problem, hopper()), "") << to_string(problem);
  }
}

TEST_F(GemmPlans, SaysWhatItCannotRun) {
  EXPECT_NE(can_run({.m = 1, .n = 20, .k = 16}, hopper()).find("multiples of 16"),
            std::string::npos);
  EXPECT_NE(can_run({.m = 0, .n = 16, .k = 16}, hopper()).find("positive"), std::string::npos);
  DeviceInfo older = hopper();
  older.compute_major = 8;
  EXPECT_NE(can_run({.m = 1, .n = 16, .k = 16}, older).find("sm_80"), std::string::npos);
}

}  // namespace
}  // namespace fovea::gpu
