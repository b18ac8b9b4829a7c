// What towers with a class token ask of the CPU: tokens before an image's patches, GELU by erf, and
// one token as the result; against the float64 reference.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/error.hpp"
#include "operator_fixture.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::cpu {
namespace {

using namespace ops;  // NOLINT(google-build-using-namespace): the problems' names

class TokenOperatorTest : public OperatorTest {};

TEST_P(TokenOperatorTest, TokensBeforeThePatchesAreThoseOfTheWeights) {
  const PatchEmbedProblem problem{
      .images = 3, .tokens = 6, .patch_elements = 4 * 4 * 3, .hidden = 40, .prefix = 2};
  const auto weight = random_floats(random_, problem.hidden * problem.patch_elements, 0.01, 0.1);
  const auto bias = random_floats(random_, problem.hidden, 0.1, 0.3);
  const auto position = random_floats(random_, problem.tokens * problem.hidden, 0.1, 0.3);
  auto prefix = random_floats(random_, problem.prefix * problem.hidden, 0.1, 0.3);
  PatchEmbedWeights weights;
  weights.projection = {
      .in = problem.patch_elements, .out = problem.hidden, .weight = weight, .bias = bias};
  weights.position = position;
  weights.prefix = prefix;
  weights.scale = {2.0 / 255, 2.1 / 255, 1.9 / 255};
  const PreparedPtr prepared = backend_->prepare(weights);
  ASSERT_TRUE(backend_->can_run(problem));
  Matrix patches(DType::kU8, problem.patches(), problem.patch_elements);
  for (std::int64_t i = 0; i < problem.patches() * problem.patch_elements; ++i) {
    patches.view.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(random_() >> 11);
  }
  Matrix got = poisoned(DType::kF32, problem.rows(), problem.hidden);
  run([&](Executor& executor) {
    executor.run(PatchEmbedCall{problem, *prepared, patches.view, got.view});
  });
  const auto expected = [&](const PatchEmbedProblem& asked) {
    Matrix want(DType::kF64, problem.rows(), problem.hidden);
    reference::compute(PatchEmbedCall{asked, reference::Kept(weights), patches.view, want.view});
    return want;
  };
  FOVEA_EXPECT_PASSES(got, expected(problem));
  for (std::int64_t image = 0; image < problem.images; ++image) {
    EXPECT_EQ(std::memcmp(got.view.as<float>() + image * 8 * problem.hidden, prefix.data(),
                          prefix.size() * sizeof(float)),
              0);
  }
  std::rotate(prefix.begin(), prefix.begin() + problem.hidden, prefix.end());
  FOVEA_EXPECT_REJECTED(got, expected(problem));
}

TEST_P(TokenOperatorTest, ATokenWithoutAProjectionIsNormalisedAlone) {
  const ProjectProblem problem{
      .sequences = 5, .tokens = 7, .token = 2, .hidden = 40, .out = 40, .projected = false};
  const auto gamma = random_floats(random_, problem.hidden, 1.0, 0.3);
  const auto beta = random_floats(random_, problem.hidden, 0.2, 0.3);
  const ProjectWeights weights{.norm = {.weight = gamma, .bias = beta}};
  const PreparedPtr prepared = backend_->prepare(weights);
  ASSERT_TRUE(backend_->can_run(problem));
  const Matrix input = random_matrix(random_, DType::kF32, problem.rows(), problem.hidden);
  Matrix got = poisoned(DType::kF32, problem.sequences, problem.out);
  run([&](Executor& executor) {
    executor.run(ProjectCall{problem, *prepared, input.view, got.view});
  });
  const auto expected = [&](const ProjectProblem& asked) {
    Matrix want(DType::kF64, problem.sequences, problem.out);
    reference::compute(ProjectCall{asked, reference::Kept(weights), input.view, want.view});
    return want;
  };
  limits_ = DType::kF32;  // in every precision
  FOVEA_EXPECT_PASSES(got, expected(problem));
  ProjectProblem other = problem;
  other.token = 3;
  FOVEA_EXPECT_REJECTED(got, expected(other));
  other = problem;
  other.projected = true;
  try {
    run([&](Executor& executor) {
      executor.run(ProjectCall{other, *prepared, input.view, got.view});
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("prepared without a projection"), std::string::npos);
  }
  other.projected = false;
  other.out = 48;
  EXPECT_FALSE(valid(other));
}

INSTANTIATE_TEST_SUITE_P(All, TokenOperatorTest,
                         testing::Combine(testing::Values(Precision::kFp32, Precision::kBf16),
                                          testing::Values(1, 4)),
                         name_of);

// GELU by erf, over the whole range: near 0, in the tails, where numbers end.
TEST(GeluErfTest, IsThatOfDoublePrecision) {
  const auto backend = make_cpu_backend({.precision = Precision::kFp32, .threads = 1});
  constexpr std::int64_t kCount = 4001;
  std::vector<float> x(kCount);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) * 0.006F - 12.0F;
  }
  x[0] = -1e30F;
  x[1] = 1e30F;
  x[2] = NAN;
  const std::vector<float> weight{1.0F};
  const PreparedPtr prepared = backend->prepare(
      LinearWeights{.in = 1, .out = 1, .weight = weight, .bias = std::span(x).subspan(2000, 1)});
  ASSERT_EQ(x[2000], 0.0F);
  std::vector<float> y(x.size());
  const LinearProblem problem{.rows = kCount, .in = 1, .out = 1, .epilogue = Epilogue::kGeluErf};
  backend->run({.images = 1}, [&](Executor& executor, const Slice&) {
    executor.run(LinearCall{problem,
                            *prepared,
                            {x.data(), DType::kF32, {kCount, 1}},
                            {y.data(), DType::kF32, {kCount, 1}}});
  });
  EXPECT_LE(std::abs(y[0]), 1e-3F);
  EXPECT_EQ(y[1], x[1]);
  EXPECT_TRUE(std::isnan(y[2]));
  for (std::size_t i = 3; i < x.size(); ++i) {
    ASSERT_NEAR(y[i], reference::gelu_erf(x[i]), 5e-7 * std::max(0.1, std::abs(double{x[i]})))
        << x[i];
  }
}

}  // namespace
}  // namespace fovea::cpu
