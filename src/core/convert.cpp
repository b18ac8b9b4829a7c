// Converts arrays of numbers to and from float32.
#include "core/convert.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/error.hpp"

namespace fovea {

void widen(const void* from, DType type, std::int64_t count, float scale, float* to) {
  const auto copy = [&]<typename T>(const T* values) {
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
        to[i] = to_float(values[i]) * scale;
      } else {
        to[i] = static_cast<float>(values[i]) * scale;
      }
    }
  };
  switch (type) {
    case DType::kF32:
      return copy(static_cast<const float*>(from));
    case DType::kBF16:
      return copy(static_cast<const BFloat16*>(from));
    case DType::kF16:
      return copy(static_cast<const Float16*>(from));
    case DType::kU8:
      return copy(static_cast<const std::uint8_t*>(from));
    case DType::kI8:
      return copy(static_cast<const std::int8_t*>(from));
    default:
      fail("operators on the CPU do not support inputs of {}", to_string(type));
  }
}

void narrow(const float* from, std::int64_t count, DType type, void* to) {
  switch (type) {
    case DType::kF32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::kBF16:
      std::transform(from, from + count, static_cast<BFloat16*>(to), to_bfloat16);
      return;
    case DType::kF16:
      std::transform(from, from + count, static_cast<Float16*>(to), to_float16);
      return;
    default:
      fail("operators on the CPU do not support outputs of {}", to_string(type));
  }
}

}  // namespace fovea
