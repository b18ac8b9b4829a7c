// The operand types of matrix products for each precision, the same on every device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "core/dtype.hpp"
#include "fovea/precision.hpp"

namespace fovea::ops {

/// Finds a type by its name at compile time; an unknown name is a compile-time error.
[[nodiscard]] constexpr DType dtype_named(std::string_view name) {
  for (std::size_t index = 0; index < std::size(kDTypes); ++index) {
    if (kDTypes[index].name == name) {
      return static_cast<DType>(index);
    }
  }
  throw std::invalid_argument("unknown element type");
}

struct OperandTypes {
  DType normed = DType::kF32;  // output of a norm, input of a linear layer
  DType inner = DType::kF32;   // between the two layers of an MLP

  /// Whether a norm writes 8-bit integers, with a scale for each row.
  [[nodiscard]] constexpr bool row_scales() const { return normed == DType::kI8; }
};

/// Returns the operand types of a precision, which must not be kAuto.
[[nodiscard]] constexpr OperandTypes operand_types(Precision precision) {
  const PrecisionInfo& info = info_of(precision);
  return {dtype_named(info.normed), dtype_named(info.inner)};
}
static_assert(std::ranges::all_of(kPrecisions, [](const PrecisionInfo& info) {
  return info.precision == Precision::kAuto || size_of(operand_types(info.precision).inner) > 0;
}));

}  // namespace fovea::ops
