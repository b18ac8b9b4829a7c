// The types of what matrix products multiply, by precision, on every device.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "core/dtype.hpp"
#include "fovea/precision.hpp"

namespace fovea::ops {

/// A name that no type has is an error of the build.
[[nodiscard]] constexpr DType dtype_named(std::string_view name) {
  for (std::size_t index = 0; index < std::size(kDTypes); ++index) {
    if (kDTypes[index].name == name) {
      return static_cast<DType>(index);
    }
  }
  throw std::invalid_argument("unknown element type");
}

struct OperandTypes {
  DType normed = DType::kF32;  // what a norm gives to a linear layer
  DType inner = DType::kF32;   // between the two layers of an MLP

  /// Whether a norm writes 8-bit integers, with a scale for each row.
  [[nodiscard]] constexpr bool row_scales() const { return normed == DType::kI8; }
};

/// Types in the order of Precision.
inline constexpr auto kOperandTypes = [] {
  std::array<OperandTypes, kPrecisions.size()> types;
  for (const PrecisionInfo& info : kPrecisions) {
    if (info.precision != Precision::kAuto) {
      types.at(static_cast<std::size_t>(info.precision)) = {dtype_named(info.normed),
                                                            dtype_named(info.inner)};
    }
  }
  return types;
}();

/// `precision`: not kAuto.
[[nodiscard]] constexpr const OperandTypes& operand_types(Precision precision) {
  return kOperandTypes.at(static_cast<std::size_t>(precision));
}

}  // namespace fovea::ops
