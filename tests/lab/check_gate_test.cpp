// The checksum, and the errors that are told of a check.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lab/cards/gemm_workload.hpp"
#include "lab/check/check_cards.hpp"

namespace fovea::lab {
namespace {

TEST(Checksum, HoldsForOneSumAndTheFirstFour) {
  const SmokeFigure right{
      .sum = 1769472, .expected = 1769472, .count = 1024, .first = {1728, 1728, 1728, 1728}};
  EXPECT_EQ(right.fault(), "");
  SmokeFigure wrong = right;
  wrong.sum = 1769464;
  EXPECT_NE(wrong.fault().find("add up to 1769464, not 1769472"), std::string::npos)
      << wrong.fault();
  // The same sum of other numbers.
  wrong = right;
  wrong.first = {1728, 1736, 1720, 1728};
  EXPECT_NE(wrong.fault().find("1728, 1736, 1720, 1728, not 1728"), std::string::npos)
      << wrong.fault();
}

// Where a product of 1.5 by 1.5 over K has a value of its own in bf16, and there are enough.
TEST(Checksum, IsAskedWhereTheResultIsExact) {
  gpu::GemmProblem problem{.m = 196,
                           .n = 768,
                           .k = 768,
                           .a = DType::kE4M3,
                           .b = DType::kE4M3,
                           .epilogue = gpu::GemmEpilogue::kPosition,
                           .tokens = 196};
  const auto asked = [&] { return GemmWorkload(problem, 1).smoke(); };
  EXPECT_EQ(asked().expected_sum, 1769472);
  EXPECT_EQ(asked().count, 1024);
  problem.k = 592;
  EXPECT_EQ(asked().workload, nullptr);
  problem.k = 768;
  problem.m = 1;
  problem.tokens = 1;
  EXPECT_EQ(asked().workload, nullptr);
}

TEST(Check, TellsBothErrorsInItsJson) {
  CheckResult result;
  result.seed = 3;
  result.verdict.worst = 0.25;
  result.verdict.worst_relative = 0.5;
  const auto json = nlohmann::json::parse(to_json({}, std::vector{result}))["checks"][0];
  EXPECT_EQ(json["max_abs"], 0.25);
  EXPECT_EQ(json["max_rel"], 0.5);
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(CheckOptions{}.seeds, 5);
}

}  // namespace
}  // namespace fovea::lab
