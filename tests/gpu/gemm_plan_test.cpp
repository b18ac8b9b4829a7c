// Which GEMM kernel is planned for which problem, and what is refused; no GPU needed.
#include <cstdint>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "gpu/bare_device.hpp"
#include "gpu/gemm_plans.hpp"

namespace fovea::gpu {
namespace {

constexpr std::size_t kSharedBytes = 232448;  // that a block of Hopper can ask for

DeviceInfo h200() {
  return {.name = "H200",
          .compute_major = 9,
          .compute_minor = 0,
          .sm_count = 132,
          .shared_bytes_per_block = kSharedBytes};
}

class GemmPlans : public PlansOfKernels {};

TEST_F(GemmPlans, KeepsWeightsOfLargePatchEmbeddingsOnChip) {
  const auto plans = gemm_plans(patch_embedding(4736), h200());
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans.front().design, GemmDesign::kBStationary);
  EXPECT_EQ(plans.front().columns, 192);
  EXPECT_EQ(plans.front().grid, 132);
}

// Wide tiles wait for the position table: `fovea kernel compare` of both plans says 3.8%.
TEST_F(GemmPlans, TakesNarrowerTilesForPatchEmbeddingsIn16Bits) {
  const GemmProblem problem{
      .m = 928256, .n = 768, .k = 768, .epilogue = GemmEpilogue::kPosition, .tokens = 196};
  const auto plans = gemm_plans(problem, h200());
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans.front().rows(), 128);
  EXPECT_EQ(plans.front().columns, 128);
}

TEST_F(GemmPlans, TakesTurnsInLargeProductsWithResultsOf16Bits) {
  for (const DType type : {DType::kBF16, DType::kE4M3, DType::kI8}) {
    for (const std::int64_t k : {768, 3072}) {
      const GemmProblem problem{
          .m = 232064, .n = 768, .k = k, .a = type, .b = type, .epilogue = GemmEpilogue::kResidual};
      const auto plans = gemm_plans(problem, h200());
      ASSERT_FALSE(plans.empty());
      if (k == 768 && type != DType::kBF16) {
        continue;  // weights that fit on chip may be faster
      }
      EXPECT_EQ(plans.front().design, GemmDesign::kPingPong) << to_string(problem);
      EXPECT_TRUE(plans.front().staging) << to_string(problem);
    }
  }
  for (const GemmEpilogue epilogue : {GemmEpilogue::kBias, GemmEpilogue::kGelu}) {
    const GemmProblem problem{.m = 232064, .n = 3072, .k = 768, .epilogue = epilogue};
    const auto plans = gemm_plans(problem, h200());
    ASSERT_FALSE(plans.empty());
    EXPECT_EQ(plans.front().design, GemmDesign::kPingPong) << to_string(problem);
    EXPECT_EQ(plans.front().grid % plans.front().cluster(), 0);
  }
}

// The blocks of a cluster share a tile of B: a grid of half a cluster would wait for ever.
TEST_F(GemmPlans, HasWholeClusters) {
  for (const std::int64_t rows : {1, 128, 129, 4117, 16768, 16896}) {
    const GemmProblem problem{.m = rows, .n = 192, .k = 768};
    bool found = false;
    for (const GemmPlan& plan : gemm_plans(problem, h200())) {
      EXPECT_EQ(plan.grid % plan.cluster(), 0) << to_string(plan);
      EXPECT_LE(plan.grid, 132 * 2) << to_string(plan);
      found = found || plan.cluster() > 1;
    }
    EXPECT_TRUE(found) << rows;
  }
}

TEST_F(GemmPlans, TakesSmallTilesForOneImage) {
  for (const std::int64_t columns : {768, 2304, 3072}) {
    const GemmProblem problem{.m = 196, .n = columns, .k = 768};
    const auto plans = gemm_plans(problem, h200());
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
        EXPECT_TRUE(can_run(problem, h200())) << to_string(problem);
        for (const GemmPlan& plan : gemm_plans(problem, h200())) {
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
          if (type == DType::kE4M3 && epilogue != GemmEpilogue::kResidual) {
            continue;  // FC2 alone is in e4m3
          }
          EXPECT_TRUE(can_run(problem, h200())) << to_string(problem);
          for (const GemmPlan& plan : gemm_plans(problem, h200())) {
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
    EXPECT_TRUE(can_run(problem, h200())) << to_string(problem);
    problem.epilogue = GemmEpilogue::kGelu;
    EXPECT_TRUE(can_run(problem, h200())) << to_string(problem);
    GemmProblem same = problem;
    same.row_norm = false;
    EXPECT_EQ(gemm_plans(problem, h200()).size(), gemm_plans(same, h200()).size());
    problem.epilogue = GemmEpilogue::kResidual;
    EXPECT_FALSE(can_run(problem, h200())) << to_string(problem);
    problem.epilogue = GemmEpilogue::kBias;
    problem.a = problem.b = DType::kE4M3;
    EXPECT_FALSE(can_run(problem, h200())) << to_string(problem);
  }
}

TEST_F(GemmPlans, SaysWhatItCannotRun) {
  EXPECT_NE(can_run({.m = 1, .n = 20, .k = 16}, h200()).why.find("multiples of 16"),
            std::string::npos);
  EXPECT_NE(can_run({.m = 0, .n = 16, .k = 16}, h200()).why.find("positive"), std::string::npos);
  EXPECT_NE(can_run({.m = 1, .n = 16, .k = 16, .b = DType::kI8}, h200()).why.find("bf16 x i8"),
            std::string::npos);
  EXPECT_FALSE(can_run({.m = 1, .n = 16, .k = 16, .a = DType::kU8, .b = DType::kU8}, h200()));
  // Sums of 32 bits.
  const GemmProblem pixels{.m = 1,
                           .n = 16,
                           .k = 65792,
                           .a = DType::kU8,
                           .b = DType::kI8,
                           .epilogue = GemmEpilogue::kPosition,
                           .tokens = 1};
  EXPECT_TRUE(can_run(pixels, h200()));
  GemmProblem too_long = pixels;
  too_long.k += 16;
  EXPECT_NE(can_run(too_long, h200()).why.find("at most 65793"), std::string::npos);
  EXPECT_NE(can_run({.m = 1, .n = 16, .k = 131072, .a = DType::kI8, .b = DType::kI8}, h200())
                .why.find("at most 131071"),
            std::string::npos);
  DeviceInfo older = h200();
  older.compute_major = 8;
  EXPECT_NE(can_run({.m = 1, .n = 16, .k = 16}, older).why.find("sm_80"), std::string::npos);
}

/// Makes launches, and runs none.
class PlanningDevice final : public BareDevice {
 public:
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] TensorMap encode(const TensorMapDesc& /*desc*/) override { return {}; }

 private:
  DeviceInfo info_ = h200();
};

/// Why there is no launch; empty when there is one.
std::string refusal(const GemmProblem& problem, const GemmOperands& operands) {
  PlanningDevice device;
  try {
    (void)gemm_launch(device, problem, operands);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST_F(GemmPlans, RefusesOperandsThatAKernelCouldNotRead) {
  GemmProblem bytes{.m = 196, .n = 768, .k = 768, .a = DType::kI8, .b = DType::kI8};
  bytes.output = DType::kI8;
  bytes.epilogue = GemmEpilogue::kGelu;
  bytes.row_scale = true;
  GemmProblem embed{.m = 196, .n = 768, .k = 768, .epilogue = GemmEpilogue::kPosition};
  embed.tokens = 196;
  const GemmProblem normed{.m = 196, .n = 768, .k = 768, .row_norm = true};
  struct Operand {
    DevicePtr GemmOperands::* address;
    const GemmProblem& problem;
    DevicePtr alignment;
    std::string_view name;
  };
  for (const Operand& one :
       {Operand{&GemmOperands::a, bytes, 16, " A "}, Operand{&GemmOperands::b, bytes, 16, " B "},
        Operand{&GemmOperands::output, bytes, 16, "output"},
        Operand{&GemmOperands::bias, bytes, 16, "bias"},
        Operand{&GemmOperands::column_scale, bytes, 16, "scales of columns"},
        Operand{&GemmOperands::row_scale, bytes, 4, "scales of rows"},
        Operand{&GemmOperands::row_norm, normed, 8, "norms of rows"},
        Operand{&GemmOperands::column_sum, normed, 16, "sums of columns"},
        Operand{&GemmOperands::position, embed, 16, "position table"}}) {
    EXPECT_EQ(refusal(one.problem, kOperands), "") << one.name;
    GemmOperands operands = kOperands;
    operands.*one.address = 0;
    std::string why = refusal(one.problem, operands);
    EXPECT_NE(why.find(one.name), std::string::npos) << why;
    EXPECT_NE(why.find("is null"), std::string::npos) << why;
    operands.*one.address = 4096 + one.alignment / 2;
    why = refusal(one.problem, operands);
    EXPECT_NE(why.find(one.name), std::string::npos) << why;
    EXPECT_NE(why.find("not aligned"), std::string::npos) << why;
    operands.*one.address = 4096 + one.alignment;
    EXPECT_EQ(refusal(one.problem, operands), "") << one.name;
  }
  // What a product does not read may be missing.
  EXPECT_EQ(
      refusal({.m = 196, .n = 768, .k = 768}, {.a = 4096, .b = 4096, .output = 4096, .bias = 4096}),
      "");
  GemmOperands unscaled = kOperands;
  unscaled.output_scale = 0;
  EXPECT_NE(refusal(bytes, unscaled).find("scale is 0"), std::string::npos);
}

}  // namespace
}  // namespace fovea::gpu
