// Helpers of the vector kernels: loops over vectors, conversion to narrow types, exp. Included by
// files that Highway compiles once for each instruction set.
#if defined(FOVEA_CPU_VECTOR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_CPU_VECTOR_INL
#undef FOVEA_CPU_VECTOR_INL
#else
#define FOVEA_CPU_VECTOR_INL
#endif

#include <cstdint>
#include <iterator>

#include <hwy/highway.h>

#include "core/dtype.hpp"

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

/// Sum over [0, count) of the vectors of float that term(tag, i) returns. Four partial sums hide
/// latency.
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

/// Adding this to a number in [-2^22, 2^22] leaves the number, rounded to nearest even, in the low
/// bits of the float.
constexpr float kToInteger = 12582912.0F;  // 1.5 * 2^23

/// Rounds to nearest even, with the bf16 in the upper half of each lane. NaNs that arithmetic
/// produces stay NaN.
template <typename D, typename V>
HWY_INLINE auto round_to_bf16([[maybe_unused]] D d, V value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
}

/// Rounds to nearest even and clamps to [-127, 127], with the i8 in the lowest byte of each lane.
/// NaN becomes some number in this range.
template <typename D, typename V>
HWY_INLINE auto round_to_i8([[maybe_unused]] D d, V value) {
  const hn::RebindToUnsigned<D> du;
  const auto limit = hn::Set(d, 127.0F);
  const auto clamped = hn::Min(hn::Max(value, hn::Neg(limit)), limit);
  return hn::BitCast(du, hn::Add(clamped, hn::Set(d, kToInteger)));
}

/// Stores a vector of floats, rounded to `kType`: f32, bf16 or i8.
template <DType kType, typename D, typename V>
HWY_INLINE void store_as(D d, V value, void* to, std::int64_t index) {
  if constexpr (kType == DType::kI8) {
    const hn::Rebind<std::uint8_t, D> d8;
    hn::StoreU(hn::TruncateTo(d8, round_to_i8(d, value)), d8,
               static_cast<std::uint8_t*>(to) + index);
  } else if constexpr (kType == DType::kBF16) {
    const hn::Rebind<std::uint16_t, D> d16;
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(round_to_bf16(d, value))), d16,
               static_cast<std::uint16_t*>(to) + index);
  } else {
    hn::StoreU(value, d, static_cast<float*>(to) + index);
  }
}

/// Stores two consecutive vectors, with fewer instructions than two calls.
template <DType kType, typename D, typename V>
HWY_INLINE void store_pair_as(D d, V low, V high, void* to, std::int64_t index) {
#if HWY_TARGET == HWY_SCALAR
  store_as<kType>(d, low, to, index);
  store_as<kType>(d, high, to, index + 1);
#else
  const hn::Repartition<std::uint16_t, D> d16;
  if constexpr (kType == DType::kI8) {
    const hn::Rebind<std::uint8_t, decltype(d16)> d8;
    const auto pairs = hn::ConcatEven(d16, hn::BitCast(d16, round_to_i8(d, high)),
                                      hn::BitCast(d16, round_to_i8(d, low)));
    hn::StoreU(hn::TruncateTo(d8, pairs), d8, static_cast<std::uint8_t*>(to) + index);
  } else if constexpr (kType == DType::kBF16) {
    const auto pairs = hn::ConcatOdd(d16, hn::BitCast(d16, round_to_bf16(d, high)),
                                     hn::BitCast(d16, round_to_bf16(d, low)));
    hn::StoreU(pairs, d16, static_cast<std::uint16_t*>(to) + index);
  } else {
    hn::StoreU(low, d, static_cast<float*>(to) + index);
    hn::StoreU(high, d, static_cast<float*>(to) + index + hn::Lanes(d));
  }
#endif
}

/// to[i] = value(tag, i), rounded, for i in [0, count).
template <DType kType, typename Value>
HWY_INLINE void store_all(std::int64_t count, const Value& value, void* to) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    store_pair_as<kType>(wide, value(wide, i), value(wide, i + lanes), to, i);
  }
  for (; i + lanes <= count; i += lanes) {
    store_as<kType>(wide, value(wide, i), to, i);
  }
  for (; i < count; ++i) {
    store_as<kType>(One(), value(One(), i), to, i);
  }
}

/// 2^x for -126 <= x <= 126: the power of the nearest integer, built from exponent bits, times a
/// polynomial of the remainder in [-1/2, 1/2]. The minimax polynomial has a relative error of at
/// most 7e-8, or 3e-6 in the less accurate variant. NaN stays NaN.
template <bool kExact, typename D, typename V>
HWY_INLINE V exp2_in_range(D d, V x) {
  constexpr float kFifth[] = {1.3276471e-3F, 9.6755413e-3F, 5.5507133e-2F,
                              0.24022120F,   0.693146967F,  1.0F};
  constexpr float kFourth[] = {9.5701013e-3F, 5.5917860e-2F, 0.24024745F, 0.693121815F,
                               0.99999926F};
  const hn::RebindToSigned<D> di;
  const auto integer = hn::Add(x, hn::Set(d, kToInteger));
  const auto rest = hn::Sub(x, hn::Sub(integer, hn::Set(d, kToInteger)));
  const auto evaluate = [&](const auto& coefficients) HWY_ATTR {
    auto sum = hn::Set(d, coefficients[0]);
    for (std::size_t i = 1; i < std::size(coefficients); ++i) {
      sum = hn::MulAdd(sum, rest, hn::Set(d, coefficients[i]));
    }
    return sum;
  };
  V p;
  if constexpr (kExact) {
    p = evaluate(kFifth);
  } else {
    p = evaluate(kFourth);
  }
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, integer));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

/// Returns max(x, -126). NaN stays NaN: maxps returns its second operand if one is NaN, Highway's
/// scalar Max() returns the other operand, and other instruction sets return NaN.
template <typename D, typename V>
HWY_INLINE V at_least_lowest_exponent(D d, V x) {
  const auto lowest = hn::Set(d, -126.0F);
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
#else
  return hn::Max(lowest, x);
#endif
}

/// exp(x) for x <= 0, but not less than exp(-87). NaN stays NaN.
template <typename D, typename V>
HWY_INLINE V exp_negative(D d, V x) {
  constexpr float kLog2OfE = 1.44269504F;
  return exp2_in_range<true>(d, at_least_lowest_exponent(d, hn::Mul(x, hn::Set(d, kLog2OfE))));
}

}  // namespace
}  // namespace fovea::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_CPU_VECTOR_INL
