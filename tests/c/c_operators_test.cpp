// The C operators on the host against plain loops in float64: strides, grouped heads, masks,
// sequences of different lengths, 16-bit types, several threads; and what they refuse.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "fovea/c/kernels.h"
#include "fovea/c/operators.h"
#include "ops/reference/rows.hpp"
#include "tests/ops/compared.hpp"

namespace fovea::c::testing {
namespace {

namespace reference = ops::reference;

constexpr fovea_place kHost{.device = -1, .threads = 3, .stream = nullptr};

template <typename T>
constexpr std::int32_t kType = std::is_same_v<T, float>      ? FOVEA_F32
                               : std::is_same_v<T, BFloat16> ? FOVEA_BF16
                                                             : FOVEA_F16;

template <typename T>
T store(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else {
    return value;
  }
}
double load(float value) {
  return value;
}
double load(BFloat16 value) {
  return to_float(value);
}
double load(Float16 value) {
  return to_float(value);
}

template <typename T>
constexpr DType kDType = std::is_same_v<T, float>      ? DType::kF32
                         : std::is_same_v<T, BFloat16> ? DType::kBF16
                                                       : DType::kF16;

template <typename T>
std::vector<double> loaded(const T* values, std::size_t count) {
  std::vector<double> all(count);
  std::transform(values, values + count, all.begin(), [](T value) { return load(value); });
  return all;
}

/// Why rows of `columns` values are not the expected ones; empty when they are.
template <typename T>
std::string fault(std::span<const T> got, const std::vector<double>& want, std::int64_t columns) {
  const std::vector<double> actual = loaded(got.data(), got.size());
  const reference::Compared matrix{.rows = static_cast<std::int64_t>(got.size()) / columns,
                                   .columns = columns,
                                   .type = kDType<T>,
                                   .actual = actual,
                                   .expected = want};
  return reference::judge(matrix, reference::tolerance_of(kDType<T>)).reason;
}

template <typename T>
std::vector<T> random(std::size_t count, unsigned seed, double spread = 1.0) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, static_cast<float>(spread));
  std::vector<T> values(count);
  std::ranges::generate(values, [&] { return store<T>(normal(engine)); });
  return values;
}

struct Attention {
  std::int64_t batch, heads, kv_heads, queries, keys, dim;
};

/// Whether query i of a sequence sees key j.
bool sees(std::int32_t causal, std::int64_t i, std::int64_t j, std::int64_t queries,
          std::int64_t keys) {
  return causal == FOVEA_CAUSAL_NONE || j <= i + (causal == FOVEA_CAUSAL_LAST ? keys - queries : 0);
}

template <typename T>
class OperatorTest : public ::testing::Test {};
using Types = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(OperatorTest, Types);

/// What is wrong with one head of one sequence; rows of operands lie `*_row` elements apart.
template <typename T>
std::string attention_fault(const fovea_attention_args& args, const T* q, const T* k, const T* v,
                            const T* o, std::int64_t queries, std::int64_t keys) {
  const auto width = static_cast<std::size_t>(args.head_dim);
  const auto rows = [&](const T* first, std::int64_t count, const fovea_strides& strides) {
    std::vector<T> all;
    for (std::int64_t row = 0; row < count; ++row) {
      all.insert(all.end(), first + row * strides.row, first + row * strides.row + args.head_dim);
    }
    return all;
  };
  const auto wide = [](const std::vector<T>& all) { return loaded(all.data(), all.size()); };
  const std::vector<double> asked = wide(rows(q, queries, args.q_strides));
  const std::vector<double> all_keys = wide(rows(k, keys, args.k_strides));
  const std::vector<double> values = wide(rows(v, keys, args.v_strides));
  std::vector<double> want(asked.size());
  for (std::int64_t i = 0; i < queries; ++i) {
    std::int64_t seen = 0;
    while (seen < keys && sees(args.causal, i, seen, queries, keys)) {
      ++seen;
    }
    const std::size_t offset = static_cast<std::size_t>(i) * width;
    const std::size_t end = static_cast<std::size_t>(seen) * width;
    reference::attend_row(std::span<const double>(asked).subspan(offset, width),
                          std::span<const double>(all_keys).first(end),
                          std::span<const double>(values).first(end), args.scale,
                          std::span(want).subspan(offset, width));
  }
  const std::vector<T> got = rows(o, queries, args.o_strides);
  return queries == 0 ? "" : fault<T>(got, want, args.head_dim);
}

TYPED_TEST(OperatorTest, AttentionOfPackedProjections) {
  using T = TypeParam;
  for (const Attention& shape : {Attention{2, 3, 3, 70, 70, 64}, Attention{1, 4, 2, 33, 130, 40},
                                 Attention{2, 2, 1, 130, 33, 72}, Attention{1, 1, 1, 1, 1, 8}}) {
    for (const std::int32_t causal : {FOVEA_CAUSAL_NONE, FOVEA_CAUSAL_FIRST, FOVEA_CAUSAL_LAST}) {
      // q in rows of its own; k and v side by side, as one projection leaves them.
      const std::int64_t q_row = shape.heads * shape.dim;
      const std::int64_t kv_row = 2 * shape.kv_heads * shape.dim;
      const auto q = random<T>(static_cast<std::size_t>(shape.batch * shape.queries * q_row), 1);
      const auto kv = random<T>(static_cast<std::size_t>(shape.batch * shape.keys * kv_row), 2);
      const T* const v = kv.data() + shape.kv_heads * shape.dim;
      std::vector<T> o(q.size(), store<T>(std::numeric_limits<float>::quiet_NaN()));
      fovea_attention_args args{};
      args.q = q.data();
      args.k = kv.data();
      args.v = v;
      args.o = o.data();
      args.q_strides = {.batch = shape.queries * q_row, .head = shape.dim, .row = q_row};
      args.k_strides = {.batch = shape.keys * kv_row, .head = shape.dim, .row = kv_row};
      args.v_strides = args.k_strides;
      args.o_strides = args.q_strides;
      args.batch = shape.batch;
      args.heads = shape.heads;
      args.kv_heads = shape.kv_heads;
      args.queries = shape.queries;
      args.keys = shape.keys;
      args.head_dim = shape.dim;
      args.scale = 0.3;
      args.causal = causal;
      args.type = kType<T>;
      ASSERT_EQ(fovea_attention(&args, &kHost), FOVEA_OK) << fovea_last_error();
      for (std::int64_t b = 0; b < shape.batch; ++b) {
        for (std::int64_t h = 0; h < shape.heads; ++h) {
          const std::int64_t kv_head = h * shape.kv_heads / shape.heads;
          const std::int64_t offset = b * args.q_strides.batch + h * shape.dim;
          const std::int64_t kv_at = b * args.k_strides.batch + kv_head * shape.dim;
          EXPECT_EQ(attention_fault(args, q.data() + offset, kv.data() + kv_at, v + kv_at,
                                    o.data() + offset, shape.queries, shape.keys),
                    "")
              << "batch " << b << ", head " << h << ", mask " << causal;
        }
      }
    }
  }
}

TYPED_TEST(OperatorTest, AttentionOfSequences) {
  using T = TypeParam;
  constexpr std::int64_t kHeads = 2;
  constexpr std::int64_t kDim = 32;
  const std::vector<std::int32_t> cu_seqlens_q{0, 70, 70, 75};
  const std::vector<std::int32_t> cu_seqlens_k{0, 10, 40, 106};
  const auto q = random<T>(75 * kHeads * kDim, 3);
  const auto k = random<T>(106 * kHeads * kDim, 4);
  const auto v = random<T>(106 * kHeads * kDim, 5);
  std::vector<T> o(q.size(), store<T>(std::numeric_limits<float>::quiet_NaN()));
  fovea_attention_args args{};
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.o = o.data();
  args.q_strides = {.batch = 0, .head = kDim, .row = kHeads * kDim};
  args.k_strides = args.v_strides = args.o_strides = args.q_strides;
  args.batch = 3;
  args.heads = args.kv_heads = kHeads;
  args.queries = 70;
  args.keys = 66;
  args.head_dim = kDim;
  args.scale = 0.2;
  args.causal = FOVEA_CAUSAL_LAST;
  args.type = kType<T>;
  args.cu_seqlens_q = cu_seqlens_q.data();
  args.cu_seqlens_k = cu_seqlens_k.data();
  ASSERT_EQ(fovea_attention(&args, &kHost), FOVEA_OK) << fovea_last_error();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::int64_t q_at = cu_seqlens_q[i] * kHeads * kDim + h * kDim;
      const std::int64_t k_at = cu_seqlens_k[i] * kHeads * kDim + h * kDim;
      EXPECT_EQ(attention_fault(args, q.data() + q_at, k.data() + k_at, v.data() + k_at,
                                o.data() + q_at, cu_seqlens_q[i + 1] - cu_seqlens_q[i],
                                cu_seqlens_k[i + 1] - cu_seqlens_k[i]),
                "")
          << "sequence " << i;
    }
  }
  EXPECT_EQ(load(o[0]), 0.0);  // the first of 70 queries sees none of 10 keys

  args.queries = 69;
  EXPECT_EQ(fovea_attention(&args, &kHost), FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("sequence 0 has 70 queries"), std::string::npos);

  // Offsets are addresses: one before the operands would be read and written there.
  args.queries = 70;
  for (const std::vector<std::int32_t>& wrong :
       {std::vector{-1, 69, 70, 75}, std::vector{-70, 0, 0, 5}}) {
    for (const bool queries : {true, false}) {
      args.cu_seqlens_q = queries ? wrong.data() : cu_seqlens_q.data();
      args.cu_seqlens_k = queries ? cu_seqlens_k.data() : wrong.data();
      EXPECT_EQ(fovea_attention(&args, &kHost), FOVEA_FAILED);
      EXPECT_NE(std::string(fovea_last_error()).find("cannot be negative"), std::string::npos);
    }
  }
}

TYPED_TEST(OperatorTest, LinearAndPatchEmbed) {
  using T = TypeParam;
  constexpr std::int64_t kTokens = 9;
  constexpr std::int64_t kRows = 3 * kTokens;
  for (const std::int64_t in : {48, 1}) {
    for (const std::int64_t out : {40, 1}) {
      const auto x = random<T>(static_cast<std::size_t>(kRows * in), 6);
      const auto weight = random<T>(static_cast<std::size_t>(out * in), 7, 0.2);
      const auto bias = random<float>(static_cast<std::size_t>(out), 8);
      const auto before = random<T>(static_cast<std::size_t>(kRows * out), 9);
      const auto expect = [&](const std::vector<T>& got, const auto& finish) {
        const std::vector<double> rows = loaded(x.data(), x.size());
        const std::vector<double> columns = loaded(weight.data(), weight.size());
        const auto depth = static_cast<std::size_t>(in);
        std::vector<double> want;
        for (std::int64_t i = 0; i < kRows * out; ++i) {
          const auto row = static_cast<std::size_t>(i / out) * depth;
          const auto column = static_cast<std::size_t>(i % out) * depth;
          const double sum =
              reference::dot<double>(std::span<const double>(rows).subspan(row, depth),
                                     std::span<const double>(columns).subspan(column, depth));
          want.push_back(finish(sum, i));
        }
        EXPECT_EQ(fault<T>(got, want, out), "");
      };
      fovea_linear_args args{};
      args.x = x.data();
      args.weight = weight.data();
      args.rows = kRows;
      args.in = in;
      args.out = out;
      args.type = kType<T>;
      std::vector<T> got(before.size());
      args.output = got.data();

      ASSERT_EQ(fovea_linear(&args, &kHost), FOVEA_OK) << fovea_last_error();
      expect(got, [](double y, std::int64_t) { return y; });

      args.bias = bias.data();
      const auto with_bias = [&](double y, std::int64_t i) {
        return y + bias[static_cast<std::size_t>(i % out)];
      };
      args.epilogue = FOVEA_EPILOGUE_GELU;
      ASSERT_EQ(fovea_linear(&args, &kHost), FOVEA_OK) << fovea_last_error();
      expect(got, [&](double y, std::int64_t i) { return reference::gelu_tanh(with_bias(y, i)); });

      got = before;
      args.epilogue = FOVEA_EPILOGUE_RESIDUAL;
      ASSERT_EQ(fovea_linear(&args, &kHost), FOVEA_OK) << fovea_last_error();
      expect(got, [&](double y, std::int64_t i) {
        return with_bias(y, i) + load(before[static_cast<std::size_t>(i)]);
      });

      fovea_patch_embed_args embed{};
      embed.patches = x.data();
      embed.weight = weight.data();
      embed.position = before.data();
      embed.output = got.data();
      embed.images = 3;
      embed.tokens = kTokens;
      embed.in = in;
      embed.out = out;
      embed.patch_type = embed.weight_type = embed.type = kType<T>;
      ASSERT_EQ(fovea_patch_embed(&embed, &kHost), FOVEA_OK) << fovea_last_error();
      expect(got, [&](double y, std::int64_t i) {
        return y + load(before[static_cast<std::size_t>(i % (kTokens * out))]);
      });
    }
  }
}

TYPED_TEST(OperatorTest, LayerNorm) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 67;
  constexpr std::int64_t kWidth = 100;
  const auto x = random<T>(kRows * kWidth, 10, 3.0);
  const auto weight = random<float>(kWidth, 11);
  const auto bias = random<float>(kWidth, 12);
  std::vector<T> got(x.size());
  fovea_layer_norm_args args{};
  args.x = x.data();
  args.weight = weight.data();
  args.bias = bias.data();
  args.output = got.data();
  args.rows = kRows;
  args.width = kWidth;
  args.eps = 1e-3;
  args.type = kType<T>;
  ASSERT_EQ(fovea_layer_norm(&args, &kHost), FOVEA_OK) << fovea_last_error();
  const std::vector<double> rows = loaded(x.data(), x.size());
  std::vector<double> want(rows.size());
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto values = std::span<const double>(rows).subspan(row * kWidth, kWidth);
    reference::normalise_row<double>(values, reference::row_moments<double>(values), args.eps,
                                     std::span(weight), std::span(bias),
                                     std::span(want).subspan(row * kWidth, kWidth));
  }
  EXPECT_EQ(fault<T>(got, want, kWidth), "");
}

TEST(Operators, PatchEmbedOfPixels) {
  constexpr std::int64_t kTokens = 4;
  constexpr std::int64_t kIn = 30;
  constexpr std::int64_t kOut = 17;
  std::vector<std::uint8_t> patches(2 * kTokens * kIn);
  std::vector<std::int8_t> weight(kOut * kIn);
  std::mt19937 engine(13);
  std::ranges::generate(patches, [&] { return static_cast<std::uint8_t>(engine() % 256); });
  std::ranges::generate(weight, [&] { return static_cast<std::int8_t>(engine() % 255 - 127); });
  const std::vector<float> scale(kOut, 1e-4F);
  const auto position = random<BFloat16>(kTokens * kOut, 14);
  std::vector<BFloat16> got(2 * kTokens * kOut);
  fovea_patch_embed_args args{};
  args.patches = patches.data();
  args.weight = weight.data();
  args.position = position.data();
  args.scale = scale.data();
  args.output = got.data();
  args.images = 2;
  args.tokens = kTokens;
  args.in = kIn;
  args.out = kOut;
  args.patch_type = FOVEA_U8;
  args.weight_type = FOVEA_I8;
  args.type = FOVEA_BF16;
  ASSERT_EQ(fovea_patch_embed(&args, &kHost), FOVEA_OK) << fovea_last_error();
  std::vector<double> want;
  for (std::size_t i = 0; i < got.size(); ++i) {
    int sum = 0;
    for (std::size_t k = 0; k < kIn; ++k) {
      sum += patches[i / kOut * kIn + k] * weight[i % kOut * kIn + k];
    }
    want.push_back(1e-4 * sum + load(position[i % (kTokens * kOut)]));
  }
  EXPECT_EQ(fault<BFloat16>(got, want, kOut), "");
  args.scale = nullptr;
  EXPECT_EQ(fovea_patch_embed(&args, &kHost), FOVEA_FAILED);
}

TEST(Operators, RefuseWhatMakesNoSense) {
  const std::vector<float> values(8 * 64);
  std::vector<float> o(values.size());
  fovea_attention_args good{};
  good.q = good.k = good.v = values.data();
  good.o = o.data();
  good.q_strides = good.k_strides = good.v_strides =
      good.o_strides = {.batch = 512, .head = 512, .row = 64};
  good.batch = good.heads = good.kv_heads = 1;
  good.queries = good.keys = 8;
  good.head_dim = 64;
  good.scale = 1;
  good.type = FOVEA_F32;
  ASSERT_EQ(fovea_attention(&good, &kHost), FOVEA_OK) << fovea_last_error();
  const auto refused = [&](const auto& change, std::string_view message) {
    fovea_attention_args args = good;
    change(args);
    EXPECT_EQ(fovea_attention(&args, &kHost), FOVEA_FAILED);
    EXPECT_NE(std::string_view(fovea_last_error()).find(message), std::string_view::npos)
        << fovea_last_error();
  };
  refused([](auto& args) { args.keys = 0; }, "a size of 0");
  refused([](auto& args) { args.heads = 3, args.kv_heads = 2; }, "not a multiple");
  refused([](auto& args) { args.v = nullptr; }, "an operand is NULL");
  refused([](auto& args) { args.scale = 0; }, "not positive");
  refused([](auto& args) { args.scale = NAN; }, "not positive");
  refused([](auto& args) { args.type = FOVEA_I8; }, "f16, bf16 or f32");
  refused([](auto& args) { args.type = 77; }, "f16, bf16 or f32");
  refused([](auto& args) { args.causal = 3; }, "invalid fovea_causal");
  refused([](auto& args) { args.level = FOVEA_LEVEL_MMA; }, "levels select GPU kernels");
  const std::int32_t offsets[2] = {0, 8};
  refused([&](auto& args) { args.cu_seqlens_k = offsets; }, "both queries and keys");

  setenv("FOVEA_FORCE_KERNEL", "abacus", 1);
  refused([](auto&) {}, "FOVEA_FORCE_KERNEL=abacus");
  setenv("FOVEA_FORCE_KERNEL", "mma", 1);
  EXPECT_EQ(fovea_attention(&good, &kHost), FOVEA_OK) << fovea_last_error();
  unsetenv("FOVEA_FORCE_KERNEL");

  fovea_place nowhere = kHost;
  nowhere.threads = 0;
  EXPECT_EQ(fovea_attention(&good, &nowhere), FOVEA_FAILED);
  fovea_attention_choice choice{};
  EXPECT_EQ(fovea_attention_choose(&good, &kHost, &choice), FOVEA_FAILED);
  EXPECT_NE(std::string_view(fovea_last_error()).find("on a GPU only"), std::string_view::npos);
}

TEST(Kernels, AreListed) {
  fovea_kernel kernel{};
  for (std::int32_t i = 0; i < fovea_kernel_count(); ++i) {
    ASSERT_EQ(fovea_kernel_get(i, &kernel), FOVEA_OK);
    EXPECT_GT(kernel.registers, 0) << kernel.name;
  }
  EXPECT_EQ(fovea_kernel_get(fovea_kernel_count(), &kernel), FOVEA_FAILED);
  EXPECT_EQ(fovea_kernel_get(-1, &kernel), FOVEA_FAILED);
}

}  // namespace
}  // namespace fovea::c::testing
