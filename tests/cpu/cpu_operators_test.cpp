// Every operator of the CPU backend against the float64 reference: odd shapes and tails, one
// thread and teams, fp32, bf16, and what is not in 8 bits of int8; and references altered in one
// place, which must not pass.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "cpu/cpu_backend.hpp"
#include "fovea/error.hpp"
#include "operator_fixture.hpp"

namespace fovea::cpu {
namespace {

using namespace ops;  // NOLINT(google-build-using-namespace): the problems' names

struct LinearCase {
  std::int64_t rows, in, out;
  Epilogue epilogue;
};

TEST_P(OperatorTest, Linear) {
  for (const LinearCase& shape :
       {LinearCase{3, 1152, 4304, Epilogue::kGeluTanh}, LinearCase{1, 96, 64, Epilogue::kNone},
        LinearCase{197, 588, 200, Epilogue::kResidual},
        LinearCase{65, 72, 129, Epilogue::kGeluTanh},
        LinearCase{65, 72, 129, Epilogue::kGeluErf}}) {
    const auto weight = random_floats(random_, shape.in * shape.out, 0.01,
                                      1.0 / std::sqrt(static_cast<double>(shape.in)));
    const auto bias = random_floats(random_, shape.out, 0.1, 0.3);
    LinearWeights weights{.in = shape.in, .out = shape.out, .weight = weight, .bias = bias};
    // The reference gets the weights that the backend has after rounding.
    std::vector<float> rounded = weight;
    if (type_ == DType::kBF16) {
      std::ranges::transform(weight, rounded.begin(),
                             [](float value) { return to_float(to_bfloat16(value)); });
    }
    const PreparedPtr prepared = backend_->prepare(weights);
    weights.weight = rounded;
    const bool residual = shape.epilogue == Epilogue::kResidual;
    const LinearProblem problem{.rows = shape.rows,
                                .in = shape.in,
                                .out = shape.out,
                                .epilogue = shape.epilogue,
                                .input = type_,
                                .output = residual ? DType::kF32 : type_};
    SCOPED_TRACE(to_string(problem));
    ASSERT_TRUE(backend_->can_run(problem));
    const Matrix input = random_matrix(random_, type_, shape.rows, shape.in);
    const Matrix before = random_matrix(random_, problem.output, shape.rows, shape.out);
    Matrix got = residual ? before : poisoned(problem.output, shape.rows, shape.out);
    got.view.data = got.memory.data();
    run([&](Executor& executor) {
      executor.run(LinearCall{problem, *prepared, input.view, got.view});
    });

    const auto expected = [&](const LinearProblem& asked, const LinearWeights& with) {
      Matrix want(DType::kF64, shape.rows, shape.out);
      for (std::int64_t i = 0; i < shape.rows * shape.out; ++i) {
        reference::store(want.view, i, before.at(i));
      }
      LinearProblem wide = asked;
      wide.output = DType::kF64;
      reference::compute(LinearCall{wide, reference::Kept(with), input.view, want.view});
      return want;
    };
    const Matrix want = expected(problem, weights);
    FOVEA_EXPECT_PASSES(got, want);
    FOVEA_EXPECT_REJECTED(with_zeroed_tile(got), want);

    LinearProblem other = problem;
    other.epilogue = shape.epilogue == Epilogue::kNone ? Epilogue::kGeluTanh : Epilogue::kNone;
    FOVEA_EXPECT_REJECTED(got, expected(other, weights));
    LinearWeights altered = weights;
    const std::vector<float> no_bias(bias.size());
    altered.bias = no_bias;
    FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
    std::vector<float> swapped = rounded;  // two of the inputs
    for (std::int64_t o = 0; o < shape.out; ++o) {
      std::swap(swapped[static_cast<std::size_t>(o * shape.in)],
                swapped[static_cast<std::size_t>((o + 1) * shape.in - 1)]);
    }
    altered = weights;
    altered.weight = swapped;
    FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
  }
}

/// Row `row` of `of` and the rows after it are all of `some`, bit by bit.
bool has_rows(const Matrix& of, std::int64_t row, const Matrix& some) {
  const auto bytes = [](const Matrix& matrix) { return std::as_bytes(std::span(matrix.memory)); };
  const std::size_t row_bytes = of.view.bytes() / static_cast<std::size_t>(of.rows());
  return std::ranges::equal(
      bytes(of).subspan(static_cast<std::size_t>(row) * row_bytes, some.view.bytes()),
      bytes(some).first(some.view.bytes()));
}

/// `rows` of `whole` from `first` on.
Matrix rows_of(const Matrix& whole, std::int64_t first, std::int64_t rows) {
  Matrix some(whole.view.dtype, rows, whole.columns());
  std::memcpy(some.view.data,
              static_cast<const std::byte*>(whole.view.data) + static_cast<std::size_t>(first) *
                                                                   some.view.bytes() /
                                                                   static_cast<std::size_t>(rows),
              some.view.bytes());
  return some;
}

TEST_P(OperatorTest, ARowHasTheSameBitsInEveryProduct) {
  constexpr std::int64_t kMost = 520;
  const auto alone = make_cpu_backend({.precision = backend_->precision(), .threads = 1});
  for (const auto& [in, out] : {std::pair{768, 449}, {300, 129}, {1153, 64}}) {
    const auto weight = random_floats(random_, std::int64_t{in} * out, 0.01, 0.03);
    const auto bias = random_floats(random_, out, 0.1, 0.3);
    const LinearWeights weights{.in = in, .out = out, .weight = weight, .bias = bias};
    const Matrix input = random_matrix(random_, type_, kMost, in);
    const Matrix before = random_matrix(random_, DType::kF32, kMost, out);
    for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kGeluTanh, Epilogue::kResidual}) {
      const auto product = [&](Backend& backend, std::int64_t first, std::int64_t rows) {
        const LinearProblem problem{
            .rows = rows, .in = in, .out = out, .epilogue = epilogue, .input = type_};
        const PreparedPtr prepared = backend.prepare(weights);
        const Matrix some = rows_of(input, first, rows);
        Matrix got = rows_of(before, first, rows);
        got.view.data = got.memory.data();
        backend.run({.images = 1}, [&](Executor& executor, const Slice&) {
          executor.run(LinearCall{problem, *prepared, some.view, got.view});
        });
        return got;
      };
      const Matrix want = product(*alone, 0, kMost);
      for (const std::int64_t rows : {1, 2, 3, 7, 50, 78, 196, 256, 257, 450}) {
        const std::int64_t first = kMost - rows - 5;
        EXPECT_TRUE(has_rows(want, first, product(*backend_, first, rows)))
            << rows << " rows, " << in << " x " << out << ", " << to_string(epilogue);
      }
    }
  }
}

TEST_P(OperatorTest, AnImageHasTheSameBitsInEveryAttention) {
  constexpr std::int64_t kImages = 3;
  constexpr std::int64_t kTokens = 450;
  const auto alone = make_cpu_backend({.precision = backend_->precision(), .threads = 1});
  const Matrix qkv = random_matrix(random_, type_, kImages * kTokens, std::int64_t{3} * 72);
  const auto attend = [&](Backend& backend, std::int64_t first, std::int64_t images) {
    const Matrix some = rows_of(qkv, first * kTokens, images * kTokens);
    Matrix got = poisoned(type_, images * kTokens, 72);
    backend.run({.images = 1}, [&](Executor& executor, const Slice&) {
      executor.run(packed_attention_call(packed_attention(images, kTokens, 1, 72, 0.1, type_),
                                         some.view, got.view));
    });
    return got;
  };
  const Matrix want = attend(*alone, 0, kImages);
  EXPECT_TRUE(has_rows(want, kTokens, attend(*backend_, 1, 1)));
}

TEST_P(OperatorTest, LayerNorm) {
  for (const std::int64_t width : {64, 72, 768, 1153}) {
    for (const std::int64_t rows : {1, 7, 196}) {
      const auto weight = random_floats(random_, width, 1.0, 0.3);
      const auto bias = random_floats(random_, width, 0.2, 0.5);
      LayerNormWeights weights{.weight = weight, .bias = bias};
      const PreparedPtr prepared = backend_->prepare(weights);
      const LayerNormProblem problem{.rows = rows, .width = width, .output = type_};
      SCOPED_TRACE(to_string(problem));
      // Small deviations: eps counts.
      const Matrix input = random_matrix(random_, DType::kF32, rows, width, 0.01, 0.004);
      Matrix got = poisoned(type_, rows, width);
      run([&](Executor& executor) {
        executor.run(LayerNormCall{problem, *prepared, input.view, got.view});
      });

      const auto expected = [&](const LayerNormProblem& asked, const LayerNormWeights& with) {
        Matrix want(DType::kF64, rows, width);
        reference::compute(LayerNormCall{asked, reference::Kept(with), input.view, want.view});
        return want;
      };
      const Matrix want = expected(problem, weights);
      FOVEA_EXPECT_PASSES(got, want);
      FOVEA_EXPECT_REJECTED(with_zeroed_tile(got), want);
      LayerNormProblem other = problem;
      other.eps = 1e-5;
      FOVEA_EXPECT_REJECTED(got, expected(other, weights));
      weights.bias = weight;
      FOVEA_EXPECT_REJECTED(got, expected(problem, weights));
    }
  }
}

TEST_P(OperatorTest, Attention) {
  struct Case {
    std::int64_t images, tokens, heads, head_dim;
  };
  for (const Case& shape :
       {Case{1, 729, 1, 72}, Case{3, 49, 4, 64}, Case{1, 1, 2, 16}, Case{2, 67, 3, 96}}) {
    const auto problem_of = [&](std::int64_t heads, std::int64_t head_dim, DType type) {
      return packed_attention(shape.images, shape.tokens, heads, head_dim,
                              1.0 / std::sqrt(static_cast<double>(shape.head_dim)), type);
    };
    const AttentionProblem problem = problem_of(shape.heads, shape.head_dim, type_);
    const std::int64_t rows = shape.images * shape.tokens;
    SCOPED_TRACE(to_string(problem));
    // Deviation 2: weights neither flat nor one-hot.
    const Matrix qkv = random_matrix(random_, type_, rows, 3 * problem.hidden(), 0.1, 2.0);
    Matrix got = poisoned(type_, rows, problem.hidden());
    run([&](Executor& executor) {
      executor.run(packed_attention_call(problem, qkv.view, got.view));
    });

    const auto expected = [&](const AttentionProblem& asked) {
      Matrix want(DType::kF64, rows, problem.hidden());
      Matrix wide(DType::kF64, rows, 3 * problem.hidden());
      for (std::int64_t i = 0; i < wide.rows() * wide.columns(); ++i) {
        reference::store(wide.view, i, qkv.at(i));
      }
      AttentionProblem in_f64 = asked;
      in_f64.type = DType::kF64;
      reference::compute(AttentionCall{
          in_f64, packed_operands(in_f64, address_of(wide.view.data), address_of(want.view.data))});
      return want;
    };
    const Matrix want = expected(problem);
    FOVEA_EXPECT_PASSES(got, want);
    FOVEA_EXPECT_REJECTED(with_zeroed_tile(got), want);
    if (shape.tokens == 1) {
      continue;  // one token's weight is 1, whatever its score
    }
    AttentionProblem other = problem;
    other.scale *= 1.1;
    FOVEA_EXPECT_REJECTED(got, expected(other));
    if (problem.heads > 1) {
      FOVEA_EXPECT_REJECTED(got, expected(problem_of(shape.head_dim, shape.heads, type_)));
    }
  }
}

/// A query that is not a number has no weights, which are not to look like some.
TEST_P(OperatorTest, AttentionOfNanIsNan) {
  constexpr std::int64_t kTokens = 49;
  const AttentionProblem problem = packed_attention(1, kTokens, 2, 64, 0.125, type_);
  const Matrix qkv = random_matrix(random_, type_, kTokens, 3 * problem.hidden());
  const std::int64_t query = static_cast<std::int64_t>(random_() % kTokens);
  reference::store(qkv.view, query * 3 * problem.hidden() + 5, NAN);
  Matrix got(type_, kTokens, problem.hidden());
  run([&](Executor& executor) {
    executor.run(packed_attention_call(problem, qkv.view, got.view));
  });
  for (std::int64_t i = 0; i < kTokens * problem.hidden(); ++i) {
    const bool affected = i / problem.hidden() == query && i % problem.hidden() < 64;
    ASSERT_EQ(std::isnan(got.at(i)), affected) << i;
  }
}

/// In float; EightBitsTest has that of int8.
class PatchEmbedOperatorTest : public OperatorTest {};

TEST_P(PatchEmbedOperatorTest, GivesWhatTheLayerDoes) {
  const PatchEmbedProblem problem{
      .images = 3, .tokens = 25, .patch_elements = 14 * 14 * 3, .hidden = 72};
  const auto weight = random_floats(random_, problem.hidden * problem.patch_elements, 0.002, 0.04);
  const auto bias = random_floats(random_, problem.hidden, 0.1, 0.3);
  auto position = random_floats(random_, problem.tokens * problem.hidden, 0.1, 0.3);
  PatchEmbedWeights weights;
  weights.projection = {
      .in = problem.patch_elements, .out = problem.hidden, .weight = weight, .bias = bias};
  weights.position = position;
  weights.scale = {2.0 / 255, 2.1 / 255, 1.9 / 255};
  weights.shift = {-1.0, -0.9, -1.1};
  const PreparedPtr prepared = backend_->prepare(weights);
  Matrix patches(DType::kU8, problem.rows(), problem.patch_elements);
  for (std::int64_t i = 0; i < problem.rows() * problem.patch_elements; ++i) {
    patches.view.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(random_() >> 11);
  }
  Matrix got = poisoned(DType::kF32, problem.rows(), problem.hidden);
  run([&](Executor& executor) {
    executor.run(PatchEmbedCall{problem, *prepared, patches.view, got.view});
  });

  const auto expected = [&](const PatchEmbedWeights& with) {
    Matrix want(DType::kF64, problem.rows(), problem.hidden);
    reference::compute(PatchEmbedCall{problem, reference::Kept(with), patches.view, want.view});
    return want;
  };
  const Matrix want = expected(weights);
  FOVEA_EXPECT_PASSES(got, want);
  FOVEA_EXPECT_REJECTED(with_zeroed_tile(got), want);
  PatchEmbedWeights altered = weights;
  std::swap(altered.scale[0], altered.scale[2]);
  FOVEA_EXPECT_REJECTED(got, expected(altered));
  altered = weights;
  altered.shift[1] = -0.8;
  FOVEA_EXPECT_REJECTED(got, expected(altered));
  std::rotate(position.begin(), position.begin() + problem.hidden, position.end());
  FOVEA_EXPECT_REJECTED(got, expected(weights));
}

TEST_P(OperatorTest, Pool) {
  const PoolProblem problem{.images = 3, .tokens = 49, .heads = 3, .hidden = 216, .mlp = 430};
  const std::int64_t h = problem.hidden;
  const auto key = random_floats(random_, problem.heads * h, 0.01, 0.1);
  const auto layer = [&](std::int64_t in, std::int64_t out) {
    return random_floats(random_, in * out, 0.01, 1.0 / std::sqrt(static_cast<double>(in)));
  };
  const auto value = layer(h, h);
  const auto out = layer(h, h);
  const auto fc1 = layer(h, problem.mlp);
  const auto fc2 = layer(problem.mlp, h);
  const auto bias = random_floats(random_, std::max(h, problem.mlp), 0.1, 0.3);
  const auto first = [&](std::int64_t count) {
    return std::span(bias).first(static_cast<std::size_t>(count));
  };
  const auto norm = random_floats(random_, h, 1.0, 0.3);
  const PoolWeights weights{
      .heads = problem.heads,
      .key = key,
      .value = {.in = h, .out = h, .weight = value, .bias = first(h)},
      .out = {.in = h, .out = h, .weight = out, .bias = first(h)},
      .norm = {.weight = norm, .bias = first(h)},
      .fc1 = {.in = h, .out = problem.mlp, .weight = fc1, .bias = first(problem.mlp)},
      .fc2 = {.in = problem.mlp, .out = h, .weight = fc2, .bias = first(h)}};
  const PreparedPtr prepared = backend_->prepare(weights);
  const Matrix input = random_matrix(random_, DType::kF32, problem.rows(), h);
  Matrix got = poisoned(DType::kF32, problem.images, h);
  run([&](Executor& executor) {
    executor.run(PoolCall{problem, *prepared, input.view, got.view});
  });

  const auto expected = [&](const PoolProblem& asked, const PoolWeights& with) {
    Matrix want(DType::kF64, problem.images, h);
    reference::compute(PoolCall{asked, reference::Kept(with), input.view, want.view});
    return want;
  };
  limits_ = DType::kF32;  // the head is computed in fp32 in every precision
  const Matrix want = expected(problem, weights);
  FOVEA_EXPECT_PASSES(got, want);
  FOVEA_EXPECT_REJECTED(with_zeroed_tile(got), want);
  const std::vector<float> zeros(std::max(fc2.size(), key.size()));
  PoolWeights altered = weights;
  altered.key = std::span(zeros).first(key.size());
  FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
  altered = weights;
  altered.fc2.weight = std::span(zeros).first(fc2.size());
  FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
  altered = weights;
  altered.value.bias = std::span(zeros).first(static_cast<std::size_t>(h));
  FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
  PoolProblem other = problem;
  other.eps = 1e-3;
  FOVEA_EXPECT_REJECTED(got, expected(other, weights));
}

TEST_P(OperatorTest, Project) {
  const ProjectProblem problem{
      .sequences = 5, .tokens = 7, .token = 6, .hidden = 40, .out = 56, .eps = 1e-6};
  const auto weight = random_floats(random_, problem.out * problem.hidden, 0.0, 0.15);
  const auto bias = random_floats(random_, problem.out, 0.1, 0.3);
  const auto gamma = random_floats(random_, problem.hidden, 1.0, 0.3);
  const auto beta = random_floats(random_, problem.hidden, 0.2, 0.3);
  const ProjectWeights weights{
      .norm = {.weight = gamma, .bias = beta},
      .linear = {.in = problem.hidden, .out = problem.out, .weight = weight, .bias = bias}};
  const PreparedPtr prepared = backend_->prepare(weights);
  const Matrix input = random_matrix(random_, DType::kF32, problem.rows(), problem.hidden);
  Matrix got = poisoned(DType::kF32, problem.sequences, problem.out);
  run([&](Executor& executor) {
    executor.run(ProjectCall{problem, *prepared, input.view, got.view});
  });

  const auto expected = [&](const ProjectProblem& asked, const ProjectWeights& with) {
    Matrix want(DType::kF64, problem.sequences, problem.out);
    reference::compute(ProjectCall{asked, reference::Kept(with), input.view, want.view});
    return want;
  };
  limits_ = DType::kF32;  // in every precision
  const Matrix want = expected(problem, weights);
  FOVEA_EXPECT_PASSES(got, want);
  FOVEA_EXPECT_REJECTED(with_zeroed_tile(got), want);
  ProjectProblem other = problem;
  other.token = 5;
  FOVEA_EXPECT_REJECTED(got, expected(other, weights));
  other = problem;
  other.eps = 1e-2;
  FOVEA_EXPECT_REJECTED(got, expected(other, weights));
  const std::vector<float> zeros(bias.size());
  ProjectWeights altered = weights;
  altered.linear.bias = zeros;
  FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
  altered = weights;
  altered.norm.bias = std::span(zeros).first(beta.size());
  FOVEA_EXPECT_REJECTED(got, expected(problem, altered));
  other = problem;
  other.token = problem.tokens;
  EXPECT_FALSE(valid(other));
}

TEST_P(OperatorTest, CopiesAreTheSameBytes) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const Matrix input = random_matrix(random_, type, 37, 24);
    Matrix got = poisoned(type, 37, 24);
    run([&](Executor& executor) { executor.run(ConvertCall{input.view, got.view}); });
    EXPECT_EQ(std::memcmp(got.view.data, input.view.data, 37 * 24 * size_of(type)), 0);
  }
}

TEST_P(OperatorTest, AnErrorOfOneThreadReachesTheCaller) {
  std::atomic<int> calls{0};
  const auto failing = [&](Executor& executor, const Slice&) {
    if (calls.fetch_add(1) == 0) {
      throw Error("on purpose");
    }
    const Matrix input = poisoned(DType::kF32, 1, 8);
    executor.run(packed_attention_call(packed_attention(1, 1, 1, 8, 1.0, DType::kF32), input.view,
                                       input.view));
  };
  try {
    backend_->run({.images = 1}, failing);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    // The first thread's, not what the others said when it failed. A thread may also come to its
    // own error first: the operands are wrong.
    EXPECT_EQ(std::string(error.what()).find("aborted"), std::string::npos) << error.what();
  }
  // The backend goes on after it.
  std::atomic<int> slices{0};
  backend_->run({.images = 1},
                [&](Executor&, const Slice& slice) { slices += static_cast<int>(slice.images); });
  EXPECT_EQ(slices, backend_->threads());
}

INSTANTIATE_TEST_SUITE_P(All, OperatorTest,
                         testing::Combine(testing::Values(Precision::kFp32, Precision::kBf16,
                                                          Precision::kInt8),
                                          testing::Values(1, 4)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, PatchEmbedOperatorTest,
                         testing::Combine(testing::Values(Precision::kFp32, Precision::kBf16),
                                          testing::Values(1, 4)),
                         name_of);

TEST(CpuBackendTest, TakesEightImagesAThreadAtOnce) {
  for (const auto& [threads, images] : {std::pair{1, 32}, std::pair{4, 32}, std::pair{6, 48}}) {
    const auto backend = make_cpu_backend({.precision = Precision::kFp32, .threads = threads});
    EXPECT_EQ(backend->preferred_batch(), images) << threads;
  }
}

TEST(CpuBackendTest, SaysWhyItDoesNotRunAProblem) {
  const auto backend = make_cpu_backend({.precision = Precision::kFp32, .threads = 1});
  EXPECT_TRUE(backend->can_run(LinearProblem{.rows = 1, .in = 8, .out = 8}));
  EXPECT_NE(backend->can_run(LinearProblem{.rows = 1, .in = 8, .out = 8, .input = DType::kBF16})
                .why.find("f32 operands, not bf16"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::cpu
