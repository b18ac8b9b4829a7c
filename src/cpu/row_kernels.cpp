// Highway implementations of the vector kernels; this file is compiled once for each instruction
// set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_kernels.cpp"
#include "cpu/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/vector-inl.hpp"
#include "ops/rounding.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu::HWY_NAMESPACE {
namespace {

/// Returns 127 / (largest magnitude of a row), and stores the inverse in `scale`.
template <typename Value>
HWY_INLINE float i8_scale(std::int64_t width, const Value& value, float& scale) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  auto peaks = hn::Zero(wide);
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    peaks = hn::Max(peaks, hn::Abs(value(wide, i)));
  }
  float peak = hn::GetLane(hn::MaxOfLanes(wide, peaks));
  for (; i < width; ++i) {
    peak = std::max(peak, std::abs(hn::GetLane(value(One(), i))));
  }
  scale = peak > 0 ? peak / 127.0F : 1.0F;
  return 1.0F / scale;
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
    const auto normed = [&](auto d, std::int64_t i) HWY_ATTR {
      const auto centered = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      const auto scale = hn::Mul(hn::LoadU(d, args.weight + i), hn::Set(d, inverse_deviation));
      return hn::MulAdd(centered, scale, hn::LoadU(d, args.bias + i));
    };
    if (args.output_type == DType::kI8) {
      const float inverse = i8_scale(args.width, normed, args.row_scale[row]);
      const auto scaled = [&](auto d, std::int64_t i)
                              HWY_ATTR { return hn::Mul(normed(d, i), hn::Set(d, inverse)); };
      store_all<DType::kI8>(args.width, scaled, y);
    } else if (args.output_type == DType::kBF16) {
      store_all<DType::kBF16>(args.width, normed, y);
    } else {
      store_all<DType::kF32>(args.width, normed, y);
    }
  }
}

/// One row of exp_rows.
template <DType kType>
void exp_row(const ExpArgs& args, std::int64_t row) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  const float* const scores = args.scores + row * args.columns;
  const std::int64_t width = args.widths[row];
  const std::int64_t whole_panels = width / args.columns;
  const auto lowest = hn::Set(wide, -std::numeric_limits<float>::infinity());
  const auto mask = [&](std::int64_t panel, std::int64_t column) HWY_ATTR {
    const std::int64_t left = width - panel * args.columns - column;
    return hn::FirstN(wide, static_cast<std::size_t>(std::max<std::int64_t>(0, left)));
  };
  auto peaks0 = lowest;
  auto peaks1 = lowest;
  for (std::int64_t panel = 0; panel < args.panels; ++panel) {
    const float* const panel_scores = scores + panel * args.panel_stride;
    for (std::int64_t column = 0; column < args.columns; column += 2 * lanes) {
      auto low = hn::LoadU(wide, panel_scores + column);
      auto high = hn::LoadU(wide, panel_scores + column + lanes);
      if (panel >= whole_panels) {
        low = hn::IfThenElse(mask(panel, column), low, lowest);
        high = hn::IfThenElse(mask(panel, column + lanes), high, lowest);
      }
      peaks0 = hn::Max(peaks0, low);
      peaks1 = hn::Max(peaks1, high);
    }
  }
  // exp(scale (score - peak)) = 2^(factor score - factor peak). The rounding error of factor * peak
  // scales the whole row, so it cancels in the softmax.
  constexpr float kLog2OfE = 1.44269504F;
  const auto factor = hn::Set(wide, args.scale * kLog2OfE);
  const float largest = hn::GetLane(hn::MaxOfLanes(wide, hn::Max(peaks0, peaks1)));
  const auto peak = hn::Mul(factor, hn::Set(wide, largest));
  auto sums0 = hn::Zero(wide);
  auto sums1 = hn::Zero(wide);
  const auto to_weight = [&](const float* score) HWY_ATTR {
    const auto exponent = hn::MulSub(hn::LoadU(wide, score), factor, peak);
    return exp2_in_range < kType == DType::kF32 > (wide, at_least_lowest_exponent(wide, exponent));
  };
  for (std::int64_t panel = 0; panel < args.panels; ++panel) {
    const float* const panel_scores = scores + panel * args.panel_stride;
    void* const to = static_cast<std::byte*>(args.output) + panel * args.output_panel_stride +
                     row * args.output_row_stride;
    for (std::int64_t column = 0; column < args.columns; column += 2 * lanes) {
      auto low = to_weight(panel_scores + column);
      auto high = to_weight(panel_scores + column + lanes);
      if (panel >= whole_panels) {
        low = hn::IfThenElseZero(mask(panel, column), low);
        high = hn::IfThenElseZero(mask(panel, column + lanes), high);
      }
      sums0 = hn::Add(sums0, low);
      sums1 = hn::Add(sums1, high);
      store_pair_as<kType>(wide, low, high, to, column);
    }
  }
  const float sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(sums0, sums1)));
  args.inverse_sums[row] = width > 0 ? 1.0F / sum : 0.0F;
}

void exp_rows_impl(const ExpArgs& args) {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    if (args.output_type == DType::kBF16) {
      exp_row<DType::kBF16>(args, row);
    } else {
      exp_row<DType::kF32>(args, row);
    }
  }
}

void center_pixels_impl(const std::uint8_t* pixels, std::int64_t count, void* output,
                        DType output_type) {
  const auto centered = [&](auto d, std::int64_t i) HWY_ATTR {
    using D = decltype(d);
    const hn::Rebind<std::uint8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto bytes = hn::PromoteTo(di, hn::LoadU(d8, pixels + i));
    return hn::ConvertTo(d, hn::Sub(bytes, hn::Set(di, ops::kPixelCentre)));
  };
  if (output_type == DType::kBF16) {
    store_all<DType::kBF16>(count, centered, output);
  } else {
    store_all<DType::kF32>(count, centered, output);
  }
}

/// Computes dot products of a token with four keys at once, so that the token is read once.
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

/// Softmax of `x`, in place.
void softmax(float* x, std::int64_t count) {
  const float peak = *std::max_element(x, x + count);
  const float sum = sum_over(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto weight = exp_negative(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, peak)));
    hn::StoreU(weight, d, x + i);
    return weight;
  });
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, 1.0F / sum)), d, x + i);
  });
}

void pool_tokens_impl(const PoolTokensArgs& args) {
  for (std::int64_t token = 0; token < args.count; ++token) {
    dot_keys(args.tokens + token * args.width, args.keys, args.width, args.heads,
             args.scores + token, args.count);
  }
  for (std::int64_t head = 0; head < args.heads; ++head) {
    softmax(args.scores + head * args.count, args.count);
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
HWY_EXPORT(exp_rows_impl);
HWY_EXPORT(center_pixels_impl);
HWY_EXPORT(pool_tokens_impl);

void layer_norm(const LayerNormArgs& args) {
  HWY_DYNAMIC_DISPATCH(layer_norm_impl)(args);
}

void exp_rows(const ExpArgs& args) {
  HWY_DYNAMIC_DISPATCH(exp_rows_impl)(args);
}

void center_pixels(const std::uint8_t* pixels, std::int64_t count, void* output,
                   DType output_type) {
  HWY_DYNAMIC_DISPATCH(center_pixels_impl)(pixels, count, output, output_type);
}

void pool_tokens(const PoolTokensArgs& args) {
  HWY_DYNAMIC_DISPATCH(pool_tokens_impl)(args);
}

}  // namespace fovea::cpu
#endif  // HWY_ONCE
