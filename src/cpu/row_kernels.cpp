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

#include "cpu/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu::HWY_NAMESPACE {
namespace {

/// 127 over the largest number of a row, and its inverse into `scale`.
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
      for_each_vector(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
        store_i8(d, hn::Mul(normed(d, i), hn::Set(d, inverse)), static_cast<std::int8_t*>(y) + i);
      });
      continue;
    }
    for_each_vector(args.width, [&](auto d, std::int64_t i) HWY_ATTR {
      store_as(args.output_type, d, normed(d, i), y, i);
    });
  }
}

/// One row of exp_rows.
template <DType kType>
void exp_row(const ExpArgs& args, std::int64_t row) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  const float* const scores = args.scores + row * args.columns;
  const std::int64_t width = args.widths[row];
  const auto lowest = hn::Set(wide, -std::numeric_limits<float>::infinity());
  const auto load = [&](std::int64_t panel, std::int64_t column) HWY_ATTR {
    return hn::LoadU(wide, scores + panel * args.panel_stride + column);
  };
  // The vectors of a row: step(whether it is whole, how many scores it has, panel, column).
  const auto for_each = [&](const auto& step) HWY_ATTR {
    const std::int64_t whole_panels = width / args.columns;
    for (std::int64_t panel = 0; panel < whole_panels; ++panel) {
      for (std::int64_t column = 0; column < args.columns; column += lanes) {
        step(true, lanes, panel, column);
      }
    }
    for (std::int64_t panel = whole_panels; panel < args.panels; ++panel) {
      for (std::int64_t column = 0; column < args.columns; column += lanes) {
        step(false, width - panel * args.columns - column, panel, column);
      }
    }
  };
  const auto mask = [&](std::int64_t left) HWY_ATTR {
    return hn::FirstN(wide, static_cast<std::size_t>(std::max<std::int64_t>(0, left)));
  };
  auto peaks = lowest;
  for_each([&](bool whole, std::int64_t left, std::int64_t panel, std::int64_t column) HWY_ATTR {
    const auto score = load(panel, column);
    peaks = hn::Max(peaks, whole ? score : hn::IfThenElse(mask(left), score, lowest));
  });
  // exp(scale (score - peak)) = 2^(factor score - factor peak); rounding of the last product scales
  // all of a row alike.
  constexpr float kLog2OfE = 1.44269504F;
  const auto factor = hn::Set(wide, args.scale * kLog2OfE);
  const auto peak = hn::Mul(factor, hn::Set(wide, hn::GetLane(hn::MaxOfLanes(wide, peaks))));
  auto sums = hn::Zero(wide);
  for_each([&](bool whole, std::int64_t left, std::int64_t panel, std::int64_t column) HWY_ATTR {
    const auto exponent = hn::MulSub(load(panel, column), factor, peak);
    constexpr bool kExact = kType == DType::kF32;
    auto weight = exp2_negative<kExact>(wide, hn::Max(hn::Set(wide, -126.0F), exponent));
    weight = hn::IfThenElse(hn::IsNaN(exponent), exponent, weight);
    weight = whole ? weight : hn::IfThenElseZero(mask(left), weight);
    sums = hn::Add(sums, weight);
    auto* const to = static_cast<std::byte*>(args.output) + panel * args.output_panel_stride +
                     row * args.output_row_stride;
    store_as(kType, wide, weight, to, column);
  });
  args.inverse_sums[row] = width > 0 ? 1.0F / hn::GetLane(hn::SumOfLanes(wide, sums)) : 0.0F;
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
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    using D = decltype(d);
    const hn::Rebind<std::uint8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto bytes = hn::PromoteTo(di, hn::LoadU(d8, pixels + i));
    const auto centered = hn::ConvertTo(d, hn::Sub(bytes, hn::Set(di, kPixelCenter)));
    store_as(output_type, d, centered, output, i);
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

/// In place.
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
