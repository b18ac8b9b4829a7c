// What the vector kernels share: loops over vectors, storing as narrow types, exp. Included by
// files that Highway compiles once an instruction set.
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

/// Rounds to nearest even, to -127 to 127: -128 has no opposite. NaN becomes one of these.
template <typename D, typename V>
HWY_INLINE void store_i8(D d, V value, std::int8_t* to) {
  const hn::Rebind<std::int8_t, D> d8;
  const auto most = hn::Set(d, 127.0F);
  hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Min(hn::Max(value, hn::Neg(most)), most))), d8,
             to);
}

/// 2^x for -126 <= x <= 0: the power of the next integer, by its exponent, times a polynomial
/// of the rest, which is within 1/2. Its coefficients make the largest relative error small, 7e-8,
/// or 3e-6 where less is enough. NaN stays NaN.
template <bool kExact, typename D, typename V>
HWY_INLINE V exp2_negative(D d, V x) {
  constexpr float kFifth[] = {1.3276471e-3F, 9.6755413e-3F, 5.5507133e-2F,
                              0.24022120F,   0.693146967F,  1.0F};
  constexpr float kFourth[] = {9.5701013e-3F, 5.5917860e-2F, 0.24024745F, 0.693121815F,
                               0.99999926F};
  const hn::RebindToSigned<D> di;
  const auto whole = hn::Round(x);
  const auto rest = hn::Sub(x, whole);
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
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, whole));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

/// exp(x) for x <= 0, at least exp(-87); NaN stays NaN.
template <typename D, typename V>
HWY_INLINE V exp_negative(D d, V x) {
  constexpr float kLog2OfE = 1.44269504F;
  const auto exponent = hn::Max(hn::Set(d, -126.0F), hn::Mul(x, hn::Set(d, kLog2OfE)));
  return hn::IfThenElse(hn::IsNaN(x), x, exp2_negative<true>(d, exponent));
}

}  // namespace
}  // namespace fovea::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_CPU_VECTOR_INL
