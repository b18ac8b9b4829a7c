// Problems print themselves, refuse nonsense, and operators refuse operands that do not fit.
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "ops/operators.hpp"
#include "ops/reference/reference_backend.hpp"

namespace fovea::ops {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ProblemTest, PrintsItself) {
  EXPECT_EQ(to_string(LinearProblem{.place = Place::kFc1,
                                    .rows = 784,
                                    .in = 768,
                                    .out = 3072,
                                    .epilogue = Epilogue::kGeluTanh,
                                    .input = DType::kBF16,
                                    .output = DType::kBF16}),
            "linear fc1: [784, 768] bf16 x [3072, 768]^T -> bf16, gelu_tanh");
  EXPECT_EQ(to_string(LinearProblem{
                .place = Place::kQkv, .rows = 4, .in = 8, .out = 24, .norm = true, .eps = 1e-6}),
            "linear qkv: [4, 8] f32 normalised, eps 1e-06, x [24, 8]^T -> f32, none");
  EXPECT_EQ(to_string(PatchEmbedProblem{
                .images = 2, .tokens = 4, .patch_elements = 12, .hidden = 8, .prefix = 1}),
            "patch_embed: 2 images of 1 tokens and 4 patches, [8, 12] u8 x [8, 12]^T -> f32");
  EXPECT_EQ(to_string(ProjectProblem{
                .sequences = 3, .tokens = 4, .hidden = 8, .out = 8, .projected = false}),
            "project: token 0 of 4 in 3 sequences, [8] f32 -> f32, eps 1e-06");
}

TEST(ProblemTest, NonsenseHasAReason) {
  EXPECT_TRUE(valid(LinearProblem{.rows = 1, .in = 1, .out = 1}));
  EXPECT_FALSE(valid(LinearProblem{.rows = 0, .in = 1, .out = 1}));
  EXPECT_FALSE(valid(LinearProblem{
      .rows = 1, .in = 1, .out = 1, .epilogue = Epilogue::kResidual, .output = DType::kI8}));
  EXPECT_FALSE(valid(LayerNormProblem{.rows = 1, .width = 8, .eps = NAN}));
  EXPECT_FALSE(
      valid(LinearProblem{.rows = 1, .in = 1, .out = 1, .input = DType::kI8, .norm = true}));
  EXPECT_FALSE(valid(LinearProblem{.rows = 1, .in = 1, .out = 1, .norm = true, .eps = -1.0}));
  EXPECT_FALSE(valid(packed_attention(1, 4, 2, 8, -1.0, DType::kF32)));
  EXPECT_FALSE(valid(PoolProblem{.images = 1, .tokens = 4, .heads = 3, .hidden = 64, .mlp = 8}));
  EXPECT_FALSE(valid(PatchEmbedProblem{
      .images = 1, .tokens = 4, .patch_elements = 48, .hidden = 8, .input = DType::kBF16}));
  PatchEmbedProblem prefixed{
      .images = 2, .tokens = 4, .patch_elements = 48, .hidden = 8, .prefix = 1};
  EXPECT_EQ(prefixed.rows(), 10);
  EXPECT_EQ(prefixed.patches(), 8);
  EXPECT_TRUE(valid(prefixed));
  prefixed.position_side = 2;
  prefixed.total = 5;
  EXPECT_FALSE(valid(prefixed));
}

TEST(ProblemTest, ImagesOfDifferentSizesHaveAsManyRowsAsTheyCan) {
  const auto embed = [](std::int64_t total) {
    return PatchEmbedProblem{.images = 3,
                             .tokens = 4,
                             .patch_elements = 48,
                             .hidden = 8,
                             .position_side = 2,
                             .total = total};
  };
  const auto pool = [](std::int64_t total) {
    return PoolProblem{.images = 3,
                       .tokens = 4,
                       .heads = 2,
                       .hidden = 8,
                       .mlp = 8,
                       .varlen = true,
                       .total = total};
  };
  for (const std::int64_t total : {3, 7, 12}) {
    EXPECT_TRUE(valid(embed(total)));
    EXPECT_EQ(embed(total).rows(), total);
    EXPECT_TRUE(valid(pool(total)));
    EXPECT_EQ(pool(total).rows(), total);
  }
  for (const std::int64_t total : {0, 2, 13}) {
    EXPECT_FALSE(valid(embed(total)));
    EXPECT_FALSE(valid(pool(total)));
  }
  EXPECT_NE(to_string(pool(7)).find("up to 4 tokens"), std::string::npos);
}

TEST(BatchRowsTest, ImagesOfOneSizeShareTheInput) {
  const std::vector<std::uint8_t> input(30);
  const Batch batch{.images = 3, .tokens = 5, .input = input};
  const BatchRows rows(batch);
  EXPECT_EQ(rows.before(2), 10);
  EXPECT_EQ(rows.input(1, 2).data(), input.data() + 10);
  EXPECT_EQ(rows.input(1, 2).size(), 20U);
  EXPECT_EQ(rows.max_input_bytes(), 10U);
}

TEST(BatchRowsTest, ImagesOfDifferentSizesLieOneAfterTheOther) {
  const std::vector<PatchGrid> grids{{2, 3}, {1, 1}, {4, 1}};
  const std::vector<std::uint8_t> input(11 * 7);
  const Batch batch{.images = 3, .tokens = 6, .grids = grids, .input = input};
  const BatchRows rows(batch);
  EXPECT_EQ(rows.before(1), 6);
  EXPECT_EQ(rows.before(3), 11);
  EXPECT_EQ(rows.input(1, 2).data(), input.data() + 42);
  EXPECT_EQ(rows.input(1, 2).size(), 35U);
  EXPECT_EQ(rows.max_input_bytes(), 42U);
  std::array<std::int32_t, 3> starts{};
  std::array<std::int32_t, 4> sizes{};
  rows.shapes(1, 2, starts.data(), sizes.data());
  EXPECT_EQ(starts, (std::array<std::int32_t, 3>{0, 1, 5}));
  EXPECT_EQ(sizes, (std::array<std::int32_t, 4>{1, 1, 4, 1}));
}

TEST(BatchRowsTest, RefusesSizesThatDoNotFit) {
  const auto refusal = [](std::vector<PatchGrid> grids) {
    return message_of([&] {
      const Batch batch{.images = 1, .tokens = 6, .grids = grids};
      const BatchRows rows(batch);
    });
  };
  EXPECT_EQ(refusal({{2, 3}}), "");
  EXPECT_NE(refusal({{2, 4}}).find("2 x 4 patches; expected 1 to 6"), std::string::npos);
  EXPECT_NE(refusal({{0, 4}}).find("0 x 4"), std::string::npos);
  EXPECT_NE(refusal({{2, 3}, {1, 1}}).find("1 images have 2 sizes"), std::string::npos);
}

TEST(LaneTest, ImagesOfDifferentSizesNeedTheirShapes) {
  const auto backend = reference::make_backend();
  std::array<float, 64> memory{};
  AttentionProblem problem = packed_attention(1, 2, 2, 4, 1.0, DType::kF32);
  problem.varlen = true;
  const TensorView qkv{memory.data(), DType::kF32, {2, 24}};
  const TensorView output{memory.data(), DType::kF32, {2, 8}};
  const std::vector<std::uint8_t> input(2);
  std::array<std::byte, sizeof(float)> row{};
  const auto message = [&](bool varlen, const ImageShapes& shapes) {
    return message_of([&] {
      backend->run({.images = 1, .tokens = 2, .input = input, .output = row},
                   [&](Executor& executor, const Slice& /*slice*/) {
                     problem.varlen = varlen;
                     executor.run(packed_attention_call(problem, qkv, output, shapes));
                   });
    });
  };
  const std::array<std::int32_t, 2> starts{0, 2};
  const ImageShapes shapes{.rows = 2, .starts = address_of(starts.data())};
  EXPECT_EQ(message(true, shapes), "");
  EXPECT_EQ(message(false, {}), "");
  EXPECT_NE(message(true, {.rows = 2}).find("the shapes of its images are missing"),
            std::string::npos);
  EXPECT_NE(message(false, shapes).find("have one size"), std::string::npos);
}

TEST(LaneTest, RefusesOperandsThatDoNotFit) {
  const auto backend = reference::make_backend();
  std::array<float, 64> memory{};
  const AttentionProblem problem = packed_attention(1, 2, 2, 4, 1.0, DType::kF32);
  const TensorView qkv{memory.data(), DType::kF32, {2, 23}};
  const TensorView output{memory.data(), DType::kF32, {2, 8}};
  const std::string said = message_of([&] {
    backend->run({.images = 1}, [&](Executor& executor, const Slice&) {
      executor.run(packed_attention_call(problem, qkv, output));
    });
  });
  EXPECT_NE(said.find("qkv is f32 [2, 23], expected f32 [2, 24]"), std::string::npos) << said;
}

TEST(WeightsTest, LengthsMustFit) {
  const auto backend = reference::make_backend();
  const std::vector<float> weight(12);
  const std::vector<float> bias(3);
  EXPECT_EQ(message_of([&] {
              static_cast<void>(backend->prepare(
                  LinearWeights{.in = 4, .out = 3, .weight = weight, .bias = bias}));
            }),
            "");
  const std::string said = message_of([&] {
    static_cast<void>(
        backend->prepare(LinearWeights{.in = 5, .out = 3, .weight = weight, .bias = bias}));
  });
  EXPECT_NE(said.find("has 12 numbers, expected 15"), std::string::npos) << said;
  const std::string norm_said = message_of([&] {
    static_cast<void>(backend->prepare(LinearWeights{.in = 4,
                                                     .out = 3,
                                                     .weight = weight,
                                                     .bias = bias,
                                                     .norm = {.weight = bias, .bias = bias}}));
  });
  EXPECT_NE(norm_said.find("norm before a linear layer has 3 numbers, expected 4"),
            std::string::npos)
      << norm_said;
}

// The reference itself, against results worked out by hand.
TEST(ReferenceTest, LayerNorm) {
  const std::vector<float> weight{1, 2, 1, 1};
  const std::vector<float> bias{0, 0, 3, 0};
  std::array<double, 4> x{1, 3, 1, 3};
  std::array<double, 4> y{};
  const reference::Kept<LayerNormWeights> weights({.weight = weight, .bias = bias});
  reference::compute(
      LayerNormCall{{.rows = 1, .width = 4, .eps = 0, .input = DType::kF64, .output = DType::kF64},
                    weights,
                    TensorView{x.data(), DType::kF64, {1, 4}},
                    {y.data(), DType::kF64, {1, 4}}});
  EXPECT_EQ(y, (std::array<double, 4>{-1, 2, 2, 1}));
}

TEST(ReferenceTest, LinearOfALayerNorm) {
  const std::vector<float> norm_weight{1, 2};
  const std::vector<float> norm_bias{0, 1};
  const std::vector<float> weight{10, 100};
  const std::vector<float> bias{5};
  std::array<double, 2> x{1, 3};
  double y = 0;
  const reference::Kept<LinearWeights> weights(
      {.in = 2,
       .out = 1,
       .weight = weight,
       .bias = bias,
       .norm = {.weight = norm_weight, .bias = norm_bias}});
  reference::compute(LinearCall{{.rows = 1,
                                 .in = 2,
                                 .out = 1,
                                 .input = DType::kF64,
                                 .output = DType::kF64,
                                 .norm = true,
                                 .eps = 0},
                                weights,
                                TensorView{x.data(), DType::kF64, {1, 2}},
                                {&y, DType::kF64, {1, 1}}});
  EXPECT_EQ(y, -10 + 300 + 5);  // the normalised row is (-1, 3)
}

TEST(ReferenceTest, Gelu) {
  const std::vector<float> one{1};
  const std::vector<float> zero{0};
  double x = 1;
  double y = 0;
  const reference::Kept<LinearWeights> weights({.in = 1, .out = 1, .weight = one, .bias = zero});
  reference::compute(LinearCall{{.rows = 1,
                                 .in = 1,
                                 .out = 1,
                                 .epilogue = Epilogue::kGeluTanh,
                                 .input = DType::kF64,
                                 .output = DType::kF64},
                                weights,
                                TensorView{&x, DType::kF64, {1, 1}},
                                {&y, DType::kF64, {1, 1}}});
  EXPECT_NEAR(y, 0.8411919906, 1e-9);  // with erf it would be 0.8413447461
}

TEST(ReferenceTest, Attention) {
  // Two tokens, one head of one: q = (0, 1), k = (0, ln 3), v = (0, 4).
  std::array<double, 6> qkv{0, 0, 0, 1, std::log(3.0), 4};
  std::array<double, 2> y{};
  const AttentionProblem problem = packed_attention(1, 2, 1, 1, 1.0, DType::kF64);
  reference::compute(AttentionCall{
      problem, packed_operands(problem, address_of(qkv.data()), address_of(y.data()))});
  EXPECT_NEAR(y[0], 2, 1e-12);  // weights 1/2, 1/2
  EXPECT_NEAR(y[1], 3, 1e-12);  // weights 1/4, 3/4
}

}  // namespace
}  // namespace fovea::ops
