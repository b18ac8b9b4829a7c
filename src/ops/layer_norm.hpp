// LayerNorm: (x - mean) / sqrt(variance + eps) * weight + bias over each row.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/address.hpp"
#include "core/dtype.hpp"
#include "core/support.hpp"

namespace fovea::ops {

/// [rows, width] -> [rows, width]
struct LayerNormProblem {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double eps = 1e-6;
  DType input = DType::kF32;
  DType output = DType::kF32;
  /// One-byte outputs: each row is divided by a scale of its own, [rows] f32.
  bool row_scales = false;

  friend auto operator<=>(const LayerNormProblem&, const LayerNormProblem&) = default;
};

struct LayerNormOperands {
  Address input = 0;      // (rows, width)
  Address weight = 0;     // f32 (width)
  Address bias = 0;       // f32 (width)
  Address output = 0;     // (rows, width); may be the input when the types are the same
  Address row_scale = 0;  // f32 (rows), when the problem has row scales
  /// Of an output of kMXFP8: where the scales of its blocks go (ops/block_scales.hpp).
  Address block_scales = 0;
};

[[nodiscard]] std::string to_string(const LayerNormProblem& problem);
/// Whether the problem makes sense on any device.
[[nodiscard]] Support valid(const LayerNormProblem& problem);

}  // namespace fovea::ops
