// Applies bias, scales, GELU, residual and rounding to a tile; Highway compiles this file once for
// each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/finish.cpp"
#include "cpu/finish.hpp"

#include <cstddef>
#include <cstdint>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu::HWY_NAMESPACE {
namespace {

using ops::Epilogue;

/// Returns 1 / x, accurate to at least `kBits` bits.
template <int kBits, typename D, typename V>
HWY_INLINE V reciprocal(D d, V x) {
  auto inverse = hn::ApproximateReciprocal(x);
  for (int bits = HWY_TARGET <= HWY_AVX3 ? 14 : 8; bits < kBits; bits *= 2) {
    inverse = hn::Mul(inverse, hn::NegMulAdd(x, inverse, hn::Set(d, 2.0F)));
  }
  return inverse;
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) = x / (1 + exp(-2 u)), where u is the argument
/// of tanh. The final multiplication by x preserves NaN.
template <DType kOutput, typename D, typename V>
HWY_INLINE V gelu_tanh(D d, V x) {
  constexpr bool kExact = kOutput == DType::kF32;
  constexpr int kBits = kExact ? 24 : kOutput == DType::kI8 ? 20 : 12;
  constexpr float kFactor = 2.302208198F;  // 2 sqrt(2 / pi) / ln 2
  const auto cubic =
      hn::NegMulSub(hn::Mul(x, x), hn::Set(d, 0.044715F * kFactor), hn::Set(d, kFactor));
  const auto exponent = hn::Min(hn::Set(d, 100.0F), at_least_lowest_exponent(d, hn::Mul(x, cubic)));
  const auto sum = hn::Add(exp2_in_range<kExact>(d, exponent), hn::Set(d, 1.0F));
  return hn::Mul(x, reciprocal<kBits>(d, sum));
}

/// x Phi(x) = x / 2 erfc(-x / sqrt(2)), with erfc(z) = t exp(P(t) - z^2), t = 1 / (1 + z / 2), for
/// z >= 0: the Chebyshev fit of Numerical Recipes' erfcc, whose relative error is 1.2e-7. The final
/// multiplication by x preserves NaN.
template <typename D, typename V>
HWY_INLINE V gelu_erf(D d, V x) {
  constexpr float kFit[] = {0.17087277F,  -0.82215223F, 1.48851587F, -1.13520398F, 0.27886807F,
                            -0.18628806F, 0.09678418F,  0.37409196F, 1.00002368F,  -1.26551223F};
  constexpr float kMaxZ = 9.0F;  // exp(-z^2) is still a normal number
  const auto z = hn::Min(hn::Set(d, kMaxZ), hn::Mul(hn::Abs(x), hn::Set(d, 0.707106781F)));
  const auto t = reciprocal<24>(d, hn::MulAdd(z, hn::Set(d, 0.5F), hn::Set(d, 1.0F)));
  auto exponent = hn::Set(d, kFit[0]);
  for (std::size_t i = 1; i < std::size(kFit); ++i) {
    exponent = hn::MulAdd(exponent, t, hn::Set(d, kFit[i]));
  }
  exponent = hn::NegMulAdd(z, z, exponent);
  const auto tail = hn::Mul(hn::Mul(t, hn::Set(d, 0.5F)), exp_negative(d, exponent));
  const auto share = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0F), tail));
  return hn::Mul(x, share);
}

template <bool kIntegers, bool kRowScale, Epilogue kEpilogue, DType kType>
void finish_rows(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Unit* const from = sums + r * stride;
    void* const to = static_cast<std::byte*>(finish.output) +
                     r * finish.output_stride * static_cast<std::int64_t>(size_of(kType));
    const auto value_of = [&](auto d, std::int64_t c) HWY_ATTR {
      using D = decltype(d);
      hn::VFromD<D> value;
      auto scale = hn::Set(d, kRowScale ? finish.row_scale[r] : 1.0F);
      if constexpr (kIntegers) {
        const hn::RebindToSigned<D> di;
        auto sum = hn::LoadU(di, reinterpret_cast<const std::int32_t*>(from) + c);
        if (finish.column_offset != nullptr) {
          sum = hn::Sub(sum, hn::LoadU(di, finish.column_offset + c));
        }
        value = hn::ConvertTo(d, sum);
        const auto column_scale = hn::LoadU(d, finish.column_scale + c);
        scale = kRowScale ? hn::Mul(column_scale, scale) : column_scale;
      } else {
        value = hn::LoadU(d, reinterpret_cast<const float*>(from) + c);
      }
      if (finish.bias != nullptr) {
        value = kIntegers || kRowScale ? hn::MulAdd(value, scale, hn::LoadU(d, finish.bias + c))
                                       : hn::Add(value, hn::LoadU(d, finish.bias + c));
      } else if constexpr (kIntegers || kRowScale) {
        value = hn::Mul(value, scale);
      }
      if constexpr (kEpilogue == Epilogue::kGeluTanh) {
        value = gelu_tanh<kType>(d, value);
      } else if constexpr (kEpilogue == Epilogue::kGeluErf) {
        value = gelu_erf(d, value);
      } else if constexpr (kEpilogue == Epilogue::kResidual) {
        value = hn::Add(value, hn::LoadU(d, static_cast<const float*>(to) + c));
      }
      if constexpr (kType == DType::kI8) {
        value =
            hn::MulSub(value, hn::Set(d, finish.output_scale), hn::Set(d, finish.output_offset));
      }
      return value;
    };
    store_all<kType>(columns, value_of, to);
  }
}

template <bool kIntegers, bool kRowScale, Epilogue kEpilogue>
void finish_as(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
               const Finish& finish) {
  const auto finish_type = [&]<DType kType>() HWY_ATTR {
    finish_rows<kIntegers, kRowScale, kEpilogue, kType>(sums, stride, rows, columns, finish);
  };
  if (finish.output_type == DType::kF32) {
    finish_type.template operator()<DType::kF32>();
  } else if constexpr (kEpilogue != Epilogue::kResidual) {
    if (finish.output_type == DType::kBF16) {
      finish_type.template operator()<DType::kBF16>();
    } else {
      finish_type.template operator()<DType::kI8>();
    }
  }
}

template <bool kIntegers, bool kRowScale>
void finish_with(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish) {
  switch (finish.epilogue) {
    case Epilogue::kNone:
      return finish_as<kIntegers, kRowScale, Epilogue::kNone>(sums, stride, rows, columns, finish);
    case Epilogue::kGeluTanh:
      return finish_as<kIntegers, kRowScale, Epilogue::kGeluTanh>(sums, stride, rows, columns,
                                                                  finish);
    case Epilogue::kGeluErf:
      return finish_as<kIntegers, kRowScale, Epilogue::kGeluErf>(sums, stride, rows, columns,
                                                                 finish);
    case Epilogue::kResidual:
      return finish_as<kIntegers, kRowScale, Epilogue::kResidual>(sums, stride, rows, columns,
                                                                  finish);
  }
}

void finish_impl(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish) {
  const bool scaled = finish.row_scale != nullptr;
  const auto finish_scaled = finish.integers
                                 ? (scaled ? finish_with<true, true> : finish_with<true, false>)
                                 : (scaled ? finish_with<false, true> : finish_with<false, false>);
  finish_scaled(sums, stride, rows, columns, finish);
}

}  // namespace
}  // namespace fovea::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::cpu {

HWY_EXPORT(finish_impl);

void finish_tile(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish) {
  HWY_DYNAMIC_DISPATCH(finish_impl)(sums, stride, rows, columns, finish);
}

}  // namespace fovea::cpu
#endif  // HWY_ONCE
