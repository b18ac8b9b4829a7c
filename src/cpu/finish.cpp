// Bias, scales, GELU, residual and rounding of a tile; Highway compiles this once an instruction
// set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/finish.cpp"
#include "cpu/finish.hpp"

#include <cstddef>
#include <cstdint>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/error.hpp"
#include "cpu/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace fovea::cpu::HWY_NAMESPACE {
namespace {

using ops::Epilogue;

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) = x / (1 + exp(-2 u)), where u is the argument
/// of tanh; the power of what is negative alone, whose sum with 1 is between 1 and 2. NaN stays NaN
/// by the last product.
template <DType kOutput, typename D, typename V>
HWY_INLINE V gelu_tanh(D d, V x) {
  constexpr bool kExact = kOutput == DType::kF32;
  constexpr float kFactor = 2.302208198F;  // 2 sqrt(2 / pi) / ln 2
  const auto cubic =
      hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715F * kFactor), hn::Set(d, kFactor));
  const auto exponent = hn::Mul(x, cubic);
  const auto power =
      exp2_negative<kExact>(d, hn::Max(hn::Set(d, -126.0F), hn::Neg(hn::Abs(exponent))));
  const auto sum = hn::Add(power, hn::Set(d, 1.0F));
  auto inverse = hn::ApproximateReciprocal(sum);
  inverse = hn::Mul(inverse, hn::NegMulAdd(sum, inverse, hn::Set(d, 2.0F)));
  if constexpr (kExact) {
    inverse = hn::Mul(inverse, hn::NegMulAdd(sum, inverse, hn::Set(d, 2.0F)));
  }
  const auto share = hn::IfThenElse(hn::Lt(exponent, hn::Zero(d)), power, hn::Set(d, 1.0F));
  return hn::Mul(x, hn::Mul(share, inverse));
}

template <DType kType, typename D, typename V>
HWY_INLINE void store_row(D d, V value, const Finish& finish, void* row, std::int64_t column) {
  if constexpr (kType == DType::kI8) {
    store_i8(d,
             hn::MulSub(value, hn::Set(d, finish.output_scale), hn::Set(d, finish.output_offset)),
             static_cast<std::int8_t*>(row) + column);
  } else {
    store_as(kType, d, value, row, column);
  }
}

template <bool kIntegers, Epilogue kEpilogue, DType kType>
void finish_rows(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Unit* const from = sums + r * stride;
    void* const to = static_cast<std::byte*>(finish.output) +
                     r * finish.output_stride * static_cast<std::int64_t>(size_of(kType));
    for_each_vector(columns, [&](auto d, std::int64_t c) HWY_ATTR {
      using D = decltype(d);
      hn::VFromD<D> value;
      if constexpr (kIntegers) {
        const hn::RebindToSigned<D> di;
        auto sum = hn::LoadU(di, reinterpret_cast<const std::int32_t*>(from) + c);
        if (finish.column_offset != nullptr) {
          sum = hn::Sub(sum, hn::LoadU(di, finish.column_offset + c));
        }
        value = hn::Mul(hn::ConvertTo(d, sum), hn::LoadU(d, finish.column_scale + c));
      } else {
        value = hn::LoadU(d, reinterpret_cast<const float*>(from) + c);
      }
      const auto row_scale = hn::Set(d, finish.row_scale == nullptr ? 1.0F : finish.row_scale[r]);
      value = finish.bias == nullptr ? hn::Mul(value, row_scale)
                                     : hn::MulAdd(value, row_scale, hn::LoadU(d, finish.bias + c));
      if constexpr (kEpilogue == Epilogue::kGeluTanh) {
        value = gelu_tanh<kType>(d, value);
      } else if constexpr (kEpilogue == Epilogue::kResidual) {
        value = hn::Add(value, hn::LoadU(d, static_cast<const float*>(to) + c));
      }
      store_row<kType>(d, value, finish, to, c);
    });
  }
}

template <bool kIntegers, Epilogue kEpilogue>
void finish_as(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
               const Finish& finish) {
  if (finish.output_type == DType::kF32) {
    finish_rows<kIntegers, kEpilogue, DType::kF32>(sums, stride, rows, columns, finish);
  } else if constexpr (kEpilogue != Epilogue::kResidual) {
    if (finish.output_type == DType::kBF16) {
      finish_rows<kIntegers, kEpilogue, DType::kBF16>(sums, stride, rows, columns, finish);
    } else {
      finish_rows<kIntegers, kEpilogue, DType::kI8>(sums, stride, rows, columns, finish);
    }
  }
}

template <bool kIntegers>
void finish_by(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
               const Finish& finish) {
  switch (finish.epilogue) {
    case Epilogue::kNone:
      return finish_as<kIntegers, Epilogue::kNone>(sums, stride, rows, columns, finish);
    case Epilogue::kGeluTanh:
      return finish_as<kIntegers, Epilogue::kGeluTanh>(sums, stride, rows, columns, finish);
    case Epilogue::kResidual:
      return finish_as<kIntegers, Epilogue::kResidual>(sums, stride, rows, columns, finish);
  }
}

void finish_impl(const Unit* sums, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 const Finish& finish) {
  if (finish.integers) {
    finish_by<true>(sums, stride, rows, columns, finish);
  } else {
    finish_by<false>(sums, stride, rows, columns, finish);
  }
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
