// Highway implementations of the vector kernels; this file is compiled once an instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_kernels.cpp"
#include "cpu/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;  // for the elements after the last whole vector

/// Calls step(tag, i) for every whole vector of [0, count), then element by element.
template <typename Step>
HWY_INLINE void for_each_vector(std::int64_t count, const Step& step) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    step(wide, i);
  }
  for (; i < count; ++i) {
    step(One(), i);
  }
}

/// Sum over [0, count) of term(tag, i), a vector of float each. Four partial sums hide latency.
template <typename Term>
HWY_INLINE float sum_over(std::int64_t count, const Term& term) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  auto sum0 = hn::Zero(wide);
  auto sum1 = sum0;
  auto sum2 = sum0;
  auto sum3 = sum0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, term(wide, i));
    sum1 = hn::Add(sum1, term(wide, i + lanes));
    sum2 = hn::Add(sum2, term(wide, i + 2 * lanes));
    sum3 = hn::Add(sum3, term(wide, i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) {
    sum0 = hn::Add(sum0, term(wide, i));
  }
  const auto sums = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  float total = hn::GetLane(hn::SumOfLanes(wide, sums));
  for (; i < count; ++i) {
    total += hn::GetLane(term(One(), i));
  }
  return total;
}

/// Rounds to nearest even. NaN stays NaN for the patterns that arithmetic makes.
template <typename D, typename V>
HWY_INLINE void store_bf16([[maybe_unused]] D d, V value, std::uint16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(rounded))), d16, to);
}

template <typename D, typename V>
HWY_INLINE void store_as(DType type, D d, V value, void* base, std::int64_t index) {
  if (type == DType::kBF16) {
    store_bf16(d, value, static_cast<std::uint16_t*>(base) + index);
  } else {
    hn::StoreU(value, d, static_cast<float*>(base) + index);
  }
}

/// exp(x) for x <= 0, within 2 units in the last place; 0 below -87; NaN stays NaN.
/// x = n ln2 + r with |r| <= ln2 / 2, and a polynomial for exp(r) (Cephes' expf).
template <typename D, typename V>
HWY_INLINE V exp_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto lowest = hn::Set(d, -87.0F);
  const auto n = hn::Round(hn::Mul(hn::Max(x, lowest), hn::Set(d, 1.44269504088896341F)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), hn::Max(x, lowest));
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  auto p = hn::Set(d, 1.9875691500e-4F);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  const auto result = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElseZero(hn::Ge(x, lowest), result));
}

void layer_norm_impl(const LayerNormArgs& args) {
  const auto inverse_width = 1.0F / static_cast<float>(args.width);
  const std::int64_t output_bytes =
      args.width * static_cast<std::int64_t>(size_of(args.output_type));
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const float* const x = args.input + row * args.width;
    void* const y = static_cast<std::byte*>(args.output) + row * output_bytes;
    const float mean = inverse_width * sum_over(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
                         return hn::LoadU(d, x + i);
                       });
    const float variance =
        inverse_width * sum_over(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
          const auto centered = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
          return hn::Mul(centered, centered);
        });
    const float inverse_deviation = 1.0F / std::sqrt(variance + args.eps);
    for_each_vector(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto centered = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      const auto scale = hn::Mul(hn::LoadU(d, args.weight + i), hn::Set(d, inverse_deviation));
      store_as(args.output_type, d, hn::MulAdd(centered, scale, hn::LoadU(d, args.bias + i)), y, i);
    });
  }
}

HWY_INLINE float max_of(const float* x, std::int64_t count) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  auto peaks = hn::Set(wide, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    peaks = hn::Max(peaks, hn::LoadU(wide, x + i));
  }
  float peak = hn::GetLane(hn::MaxOfLanes(wide, peaks));
  for (; i < count; ++i) {
    peak = std::max(peak, x[i]);
  }
  return peak;
}

void softmax_impl(const SoftmaxArgs& args) {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    float* const x = args.scores + row * args.stride;
    const float peak = max_of(x, args.width);
    const float sum = sum_over(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto below = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, peak));
      const auto weight = exp_negative(d, hn::Mul(below, hn::Set(d, args.scale)));
      hn::StoreU(weight, d, x + i);
      return weight;
    });
    const float inverse = 1.0F / sum;
    // As bfloat16 element i overwrites element i / 2, which has been read by then.
    for_each_vector(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
      store_as(args.output_type, d, hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inverse)), x, i);
    });
  }
}

void center_pixels_impl(const std::uint8_t* pixels, std::int64_t count, void* output,
                        DType output_type) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    using D = decltype(d);
    const hn::Rebind<std::uint8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto bytes = hn::PromoteTo(di, hn::LoadU(d8, pixels + i));
    const auto centered = hn::ConvertTo(d, hn::Sub(bytes, hn::Set(di, kPixelCenter)));
    store_as(output_type, d, centered, output, i);
  });
}

void add_to_impl(const float* from, std::int64_t count, float* to) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  });
}

/// Dot products of a token with four keys at once: the token is read once.
HWY_INLINE void dot_keys(const float* token, const float* keys, std::int64_t width,
                         std::int64_t heads, float* scores, std::int64_t stride) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t head = 0;
  for (; head + 4 <= heads; head += 4) {
    const float* const key = keys + head * width;
    auto sum0 = hn::Zero(wide);
    auto sum1 = sum0;
    auto sum2 = sum0;
    auto sum3 = sum0;
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const auto x = hn::LoadU(wide, token + i);
      sum0 = hn::MulAdd(x, hn::LoadU(wide, key + i), sum0);
      sum1 = hn::MulAdd(x, hn::LoadU(wide, key + width + i), sum1);
      sum2 = hn::MulAdd(x, hn::LoadU(wide, key + 2 * width + i), sum2);
      sum3 = hn::MulAdd(x, hn::LoadU(wide, key + 3 * width + i), sum3);
    }
    float sums[4] = {
        hn::GetLane(hn::SumOfLanes(wide, sum0)), hn::GetLane(hn::SumOfLanes(wide, sum1)),
        hn::GetLane(hn::SumOfLanes(wide, sum2)), hn::GetLane(hn::SumOfLanes(wide, sum3))};
    for (std::int64_t j = 0; j < 4; ++j) {
      for (std::int64_t rest = i; rest < width; ++rest) {
        sums[j] += token[rest] * key[j * width + rest];
      }
      scores[(head + j) * stride] = sums[j];
    }
  }
  for (; head < heads; ++head) {
    const float* const key = keys + head * width;
    scores[head * stride] = sum_over(width, [&](auto d, std::int64_t i) HWY_ATTR {
      return hn::Mul(hn::LoadU(d, token + i), hn::LoadU(d, key + i));
    });
  }
}

void pool_tokens_impl(const PoolTokensArgs& args) {
  for (std::int64_t token = 0; token < args.count; ++token) {
    dot_keys(args.tokens + token * args.width, args.keys, args.width, args.heads,
             args.scores + token, args.count);
  }
  softmax_impl(
      {.scores = args.scores, .rows = args.heads, .width = args.count, .stride = args.count});
  for (std::int64_t head = 0; head < args.heads; ++head) {
    std::fill_n(args.means + head * args.mean_stride, args.width, 0.0F);
  }
  for (std::int64_t token = 0; token < args.count; ++token) {
    const float* const x = args.tokens + token * args.width;
    for (std::int64_t head = 0; head < args.heads; ++head) {
      const float weight = args.scores[head * args.count + token];
      float* const mean = args.means + head * args.mean_stride;
      for_each_vector(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
        const auto sum =
            hn::MulAdd(hn::Set(d, weight), hn::LoadU(d, x + i), hn::LoadU(d, mean + i));
        hn::StoreU(sum, d, mean + i);
      });
    }
  }
}

}  // namespace
}  // namespace fovea::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(layer_norm_impl);
HWY_EXPORT(softmax_impl);
HWY_EXPORT(center_pixels_impl);
HWY_EXPORT(add_to_impl);
HWY_EXPORT(pool_tokens_impl);

void layer_norm(const LayerNormArgs& args) {
  HWY_DYNAMIC_DISPATCH(layer_norm_impl)(args);
}

void softmax(const SoftmaxArgs& args) {
  HWY_DYNAMIC_DISPATCH(softmax_impl)(args);
}

void center_pixels(const std::uint8_t* pixels, std::int64_t count, void* output,
                   DType output_type) {
  HWY_DYNAMIC_DISPATCH(center_pixels_impl)(pixels, count, output, output_type);
}

void add_to(const float* from, std::int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(add_to_impl)(from, count, to);
}

void pool_tokens(const PoolTokensArgs& args) {
  HWY_DYNAMIC_DISPATCH(pool_tokens_impl)(args);
}

}  // namespace fovea::cpu
#endif  // HWY_ONCE
