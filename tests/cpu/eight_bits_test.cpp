// Products of 8-bit integers and what surrounds them, against exact integer sums in float64; and
// references altered in one place, which must not pass.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "asked_isa.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/isa.hpp"
#include "cpu/pack.hpp"
#include "cpu/product.hpp"
#include "gate.hpp"
#include "ops/backend.hpp"
#include "ops/reference/rows.hpp"
#include "ops/rounding.hpp"

namespace fovea::cpu {
namespace {

using namespace ops;  // NOLINT(google-build-using-namespace): the problems' names

/// Threads.
class EightBitsTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    limit_isa_from_environment();
    if (!has_asked_isa()) {
      GTEST_SKIP() << "this CPU lacks the instructions: it tests the set below them already";
    }
    if (!has_int8()) {
      GTEST_SKIP() << "this CPU has no AVX2, without which int8 is refused";
    }
    backend_ = make_cpu_backend({.precision = Precision::kInt8, .threads = GetParam()});
  }

  void run(const std::function<void(Executor&)>& body) {
    backend_->run({.images = 1}, [&](Executor& executor, const Slice&) { body(executor); });
  }

  Matrix random_i8(std::int64_t rows, std::int64_t columns) {
    Matrix matrix(DType::kI8, rows, columns);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      matrix.view.as<std::int8_t>()[i] =
          static_cast<std::int8_t>(static_cast<int>(random_() % 255) - 127);
    }
    return matrix;
  }

  std::unique_ptr<Backend> backend_;
  Random random_ = seeded(11);
};

/// A layer of integers in float64.
struct Exact {
  LinearWeights weights;
  Epilogue epilogue = Epilogue::kNone;
  bool row_scales = true;

  /// What the layer gives before it is stored, [rows, out].
  [[nodiscard]] Matrix operator()(const Matrix& input, const std::vector<float>& row_scale,
                                  const Matrix& before) const {
    const RoundedLinear rounded = round_to_i8(weights);
    const auto in = static_cast<std::size_t>(weights.in);
    Matrix want(DType::kF64, input.rows(), weights.out);
    for (std::int64_t row = 0; row < input.rows(); ++row) {
      const std::span x(input.view.as<std::int8_t>() + row * weights.in, in);
      for (std::int64_t o = 0; o < weights.out; ++o) {
        const std::span w(rounded.weight.data() + static_cast<std::size_t>(o) * in, in);
        const double sum = reference::dot<double>(std::span<const std::int8_t>(x),
                                                  std::span<const std::int8_t>(w));
        double value = sum * rounded.scale[static_cast<std::size_t>(o)];
        value *= row_scales ? row_scale[static_cast<std::size_t>(row)] : 1.0;
        value += rounded.bias[static_cast<std::size_t>(o)];
        const std::int64_t index = row * weights.out + o;
        if (epilogue == Epilogue::kGeluTanh) {
          value = reference::gelu_tanh(value);
        } else if (epilogue == Epilogue::kResidual) {
          value += before.at(index);
        }
        if (weights.output.type == DType::kI8) {
          value = std::clamp(value / weights.output.scale - weights.output.offset, -127.0, 127.0);
        }
        reference::store(want.view, index, value);
      }
    }
    return want;
  }
};

/// Whether `got` is `want` rounded: as float32 to its last digits, as i8 to the next integer, which
/// may be either one in the middle between two.
bool is_rounded(const Matrix& got, const Matrix& want) {
  double largest = 0;
  for (std::int64_t i = 0; i < want.rows() * want.columns(); ++i) {
    largest = std::max(largest, std::abs(want.at(i)));
  }
  const double limit = got.view.dtype == DType::kI8    ? 0.5 + 1e-4
                       : got.view.dtype == DType::kF32 ? 4e-7 * largest
                                                       : 5e-3 * largest;
  for (std::int64_t i = 0; i < want.rows() * want.columns(); ++i) {
    if (!(std::abs(got.at(i) - want.at(i)) <= limit)) {
      return false;
    }
  }
  return true;
}

TEST_P(EightBitsTest, Linear) {
  struct Case {
    std::int64_t rows, in, out;
    Epilogue epilogue;
    bool row_scales;
    DType output;
    int offset;  // of the input
  };
  const DType wide = backend_->types().qkv;
  for (const Case& shape :
       {Case{197, 768, 200, Epilogue::kNone, true, wide, 0},
        Case{33, 1152, 430, Epilogue::kGeluTanh, true, DType::kI8, 0},
        Case{65, 4304, 72, Epilogue::kResidual, false, DType::kF32, kGeluI8Offset},
        Case{1, 96, 64, Epilogue::kNone, true, DType::kF32, 0},
        Case{14, 67, 33, Epilogue::kResidual, true, DType::kF32, 0}}) {
    const auto weight = random_floats(random_, shape.in * shape.out, 0.01, 0.02);
    const auto bias = random_floats(random_, shape.out, 0.1, 0.3);
    const auto row_scale = random_floats(random_, shape.rows, 0.02, 0.002);
    Exact exact{.weights = {.in = shape.in,
                            .out = shape.out,
                            .weight = weight,
                            .bias = bias,
                            .input = {.type = DType::kI8, .scale = 0.9F, .offset = shape.offset}},
                .epilogue = shape.epilogue,
                .row_scales = shape.row_scales};
    if (shape.output == DType::kI8) {
      exact.weights.output = {.type = DType::kI8, .scale = 0.02F, .offset = kGeluI8Offset};
    }
    const PreparedPtr prepared = backend_->prepare(exact.weights);
    const LinearProblem problem{.rows = shape.rows,
                                .in = shape.in,
                                .out = shape.out,
                                .epilogue = shape.epilogue,
                                .input = DType::kI8,
                                .output = shape.output,
                                .row_scales = shape.row_scales};
    SCOPED_TRACE(to_string(problem));
    ASSERT_TRUE(backend_->can_run(problem));
    const Matrix input = random_i8(shape.rows, shape.in);
    const bool residual = shape.epilogue == Epilogue::kResidual;
    const Matrix before =
        random_matrix(random_, residual ? problem.output : DType::kF32, shape.rows, shape.out);
    Matrix got = residual ? before : Matrix(problem.output, shape.rows, shape.out);
    got.view.data = got.memory.data();
    run([&](Executor& executor) {
      const ConstTensorView scales =
          shape.row_scales ? ConstTensorView{row_scale.data(), DType::kF32, {shape.rows}}
                           : ConstTensorView{};
      executor.run(LinearCall{problem, *prepared, input.view, got.view, scales});
    });
    const Matrix want = exact(input, row_scale, before);
    EXPECT_TRUE(is_rounded(got, want));
    EXPECT_FALSE(is_rounded(with_zeroed_tile(got), want));

    Exact altered = exact;
    altered.weights.input.offset += 1;
    EXPECT_FALSE(is_rounded(got, altered(input, row_scale, before)));
    altered = exact;
    altered.row_scales = !exact.row_scales;
    EXPECT_FALSE(is_rounded(got, altered(input, row_scale, before)));
    altered = exact;
    const std::vector<float> no_bias(bias.size());
    altered.weights.bias = no_bias;
    EXPECT_FALSE(is_rounded(got, altered(input, row_scale, before)));
    altered = exact;
    altered.epilogue = shape.epilogue == Epilogue::kNone ? Epilogue::kGeluTanh : Epilogue::kNone;
    EXPECT_FALSE(is_rounded(got, altered(input, row_scale, before)));
  }
}

/// The integers that tiles of any instruction set must give, one row and column after the other.
/// `kSaturates`: those of vpmaddubsw instead, whose sums of two products end at 16 bits.
template <bool kSaturates>
std::vector<std::int64_t> integer_product(const Matrix& a, const Matrix& b) {
  const std::int64_t depth = a.columns();
  const int offset = kSaturates && a.view.dtype == DType::kI8 ? kByteOffset : 0;
  std::vector<std::int64_t> sums;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    for (std::int64_t column = 0; column < b.rows(); ++column) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < depth; i += 2) {
        std::int64_t pair = 0;
        std::int64_t added = 0;
        for (std::int64_t k = i; k < std::min(i + 2, depth); ++k) {
          const auto y = static_cast<std::int64_t>(b.at(column * depth + k));
          pair += (static_cast<std::int64_t>(a.at(row * depth + k)) + offset) * y;
          added += offset * y;
        }
        sum += (kSaturates ? std::clamp<std::int64_t>(pair, INT16_MIN, INT16_MAX) : pair) - added;
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

/// Of the largest numbers there are, of which two products are more than 16 bits hold.
TEST_P(EightBitsTest, TilesGiveTheSameIntegersOnEveryInstructionSet) {
  constexpr std::int64_t kDepth = 331;  // no whole unit, and no whole step
  for (const DType type : {DType::kU8, DType::kI8}) {
    const TileKernel& kernel = tile_kernel(type);
    Matrix b(DType::kI8, kernel.columns, kDepth);
    for (std::int64_t i = 0; i < kernel.columns * kDepth; ++i) {
      const int sign = random_() % 8 == 0 ? -1 : 1;  // most columns would saturate in one direction
      b.view.as<std::int8_t>()[i] =
          static_cast<std::int8_t>((i / kDepth % 2 == 0 ? 1 : -1) * sign * 127);
    }
    const std::int64_t units = unit_count(kernel, kDepth);
    AlignedBuffer<std::byte> scratch;
    AlignedBuffer<Unit> panel(static_cast<std::size_t>(panels_size(kernel, kernel.columns, units)));
    pack_columns(kernel, {b.view.data, DType::kI8, kDepth, kernel.columns, kDepth}, scratch,
                 panel.data());
    for (const std::int64_t height : kernel.heights) {
      SCOPED_TRACE(fmt::format("{} rows of {}", height, to_string(type)));
      Matrix a(type, height, kDepth);
      for (std::int64_t i = 0; i < height * kDepth; ++i) {
        const auto draw = random_();
        if (type == DType::kU8) {
          a.view.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(draw % 4 == 0 ? draw >> 8 : 255);
        } else {
          a.view.as<std::int8_t>()[i] = static_cast<std::int8_t>(draw % 8 == 0 ? -127 : 127);
        }
      }
      AlignedBuffer<Unit> rows(static_cast<std::size_t>(packed_size(kernel, height, units)));
      pack_rows(kernel, {a.view.data, type, kDepth, height, kDepth}, scratch, rows.data());
      std::vector<Unit> sums(TileKernel::kMaxTile);
      {
        const TileSession session(kernel);
        tile_function(kernel, height)(rows.data(), kernel.packed_layout(height), panel.data(),
                                      units, sums.data());
      }
      std::vector<std::int64_t> got;
      for (std::int64_t row = 0; row < height; ++row) {
        for (std::int64_t column = 0; column < kernel.columns; ++column) {
          std::int64_t offset = 0;
          for (std::int64_t i = 0;
               kernel.type == UnitType::kU8I8 && type == DType::kI8 && i < kDepth; ++i) {
            offset += kByteOffset * b.view.as<std::int8_t>()[column * kDepth + i];
          }
          got.push_back(static_cast<std::int32_t>(
                            sums[static_cast<std::size_t>(row * kernel.columns + column)]) -
                        offset);
        }
      }
      EXPECT_EQ(got, integer_product<false>(a, b));
      EXPECT_NE(got, integer_product<true>(a, b));
    }
  }
}

TEST_P(EightBitsTest, LayerNormGivesEachRowItsScale) {
  constexpr std::int64_t kRows = 9;
  for (const std::int64_t width : {64, 768, 1153}) {
    const auto weight = random_floats(random_, width, 1.0, 0.3);
    const auto bias = random_floats(random_, width, 0.2, 0.5);
    const LayerNormWeights weights{.weight = weight, .bias = bias};
    const PreparedPtr prepared = backend_->prepare(weights);
    const LayerNormProblem problem{
        .rows = kRows, .width = width, .output = DType::kI8, .row_scales = true};
    SCOPED_TRACE(to_string(problem));
    const Matrix input = random_matrix(random_, DType::kF32, kRows, width, 0.01, 0.4);
    Matrix got(DType::kI8, kRows, width);
    std::vector<float> scale(kRows, NAN);
    run([&](Executor& executor) {
      executor.run(LayerNormCall{
          problem, *prepared, input.view, got.view, {scale.data(), DType::kF32, {kRows}}});
    });
    Matrix normed(DType::kF64, kRows, width);
    reference::compute(LayerNormCall{
        {.rows = kRows, .width = width}, reference::Kept(weights), input.view, normed.view});
    Matrix want(DType::kF64, kRows, width);
    for (std::int64_t row = 0; row < kRows; ++row) {
      double peak = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        peak = std::max(peak, std::abs(normed.at(row * width + i)));
      }
      EXPECT_NEAR(scale[static_cast<std::size_t>(row)], peak / 127, 1e-6 * peak);
      for (std::int64_t i = 0; i < width; ++i) {
        reference::store(want.view, row * width + i, normed.at(row * width + i) * 127 / peak);
      }
    }
    EXPECT_TRUE(is_rounded(got, want));
    EXPECT_FALSE(is_rounded(with_zeroed_tile(got), want));
  }
}

TEST_P(EightBitsTest, ARowOfZerosHasAScale) {
  const std::vector<float> zeros(64);
  const PreparedPtr prepared = backend_->prepare(LayerNormWeights{.weight = zeros, .bias = zeros});
  const Matrix input = random_matrix(random_, DType::kF32, 1, 64);
  Matrix got(DType::kI8, 1, 64);
  float scale = NAN;
  run([&](Executor& executor) {
    executor.run(LayerNormCall{{.rows = 1, .width = 64, .output = DType::kI8, .row_scales = true},
                               *prepared,
                               input.view,
                               got.view,
                               {&scale, DType::kF32, {1}}});
  });
  EXPECT_EQ(scale, 1.0F);
  for (std::int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(got.at(i), 0);
  }
}

/// The pixels' product is exact: what differs from the layer in float32 is the rounded weights.
TEST_P(EightBitsTest, PatchEmbedIsExactFromPixels) {
  const PatchEmbedProblem problem{
      .images = 3, .tokens = 25, .patch_elements = 14 * 14 * 3, .hidden = 72};
  const std::int64_t depth = problem.patch_elements;
  const auto weight = random_floats(random_, problem.hidden * depth, 0.002, 0.04);
  const auto bias = random_floats(random_, problem.hidden, 0.1, 0.3);
  const auto position = random_floats(random_, problem.tokens * problem.hidden, 0.1, 0.3);
  PatchEmbedWeights weights;
  weights.projection = {.in = depth, .out = problem.hidden, .weight = weight, .bias = bias};
  weights.position = position;
  weights.scale = {2.0 / 255, 2.1 / 255, 1.9 / 255};
  weights.shift = {-1.0, -0.9, -1.1};
  const PreparedPtr prepared = backend_->prepare(weights);
  Matrix patches(DType::kU8, problem.rows(), depth);
  for (std::int64_t i = 0; i < problem.rows() * depth; ++i) {
    patches.view.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(random_() >> 11);
  }
  Matrix got = poisoned(DType::kF32, problem.rows(), problem.hidden);
  run([&](Executor& executor) {
    executor.run(PatchEmbedCall{problem, *prepared, patches.view, got.view});
  });

  // Of the middle of the pixels' range the layer is as it should be, elsewhere the weights are
  // those of steps of a row's largest / 127.
  constexpr double kMiddle = 127.5;
  const auto expected = [&](double middle) {
    Matrix want(DType::kF64, problem.rows(), problem.hidden);
    for (std::int64_t o = 0; o < problem.hidden; ++o) {
      std::vector<double> scaled;
      double peak = 0;
      double constant = bias[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < depth; ++i) {
        const auto channel = static_cast<std::size_t>(i % 3);
        const double original = weight[static_cast<std::size_t>(o * depth + i)];
        scaled.push_back(static_cast<float>(original * weights.scale[channel]));
        peak = std::max(peak, std::abs(scaled.back()));
        constant += original * (kMiddle * weights.scale[channel] + weights.shift[channel]);
      }
      for (double& value : scaled) {
        value = std::nearbyint(static_cast<float>(value) * (127.0F / static_cast<float>(peak))) *
                peak / 127;
      }
      for (std::int64_t row = 0; row < problem.rows(); ++row) {
        double value =
            constant +
            position[static_cast<std::size_t>(row % problem.tokens * problem.hidden + o)];
        for (std::int64_t i = 0; i < depth; ++i) {
          value += (patches.at(row * depth + i) - middle) * scaled[static_cast<std::size_t>(i)];
        }
        reference::store(want.view, row * problem.hidden + o, value);
      }
    }
    return want;
  };
  EXPECT_EQ(verdict(got, expected(kMiddle), DType::kF32).reason, "");
  EXPECT_FALSE(verdict(got, expected(kMiddle + 0.1), DType::kF32).passes());
}

INSTANTIATE_TEST_SUITE_P(All, EightBitsTest, testing::Values(1, 4),
                         [](const auto& param) { return fmt::format("{}_threads", param.param); });

}  // namespace
}  // namespace fovea::cpu
