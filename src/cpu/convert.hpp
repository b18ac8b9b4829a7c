// Numbers to float32 and back.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace fovea::cpu {

/// What products compute in: bf16 stays where the CPU multiplies it, all else is widened.
[[nodiscard]] DType product_type(DType type);

/// to[i] = from[i] * scale, as float32.
void widen(const void* from, DType type, std::int64_t count, float scale, float* to);

/// to[i] = from[i], rounded to nearest even.
void narrow(const float* from, std::int64_t count, DType type, void* to);

}  // namespace fovea::cpu
