// Conversions of arrays to and from float32.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace fovea {

/// to[i] = from[i] * scale, as float32.
void widen(const void* from, DType type, std::int64_t count, float scale, float* to);

/// to[i] = from[i], rounded to nearest even.
void narrow(const float* from, std::int64_t count, DType type, void* to);

}  // namespace fovea
