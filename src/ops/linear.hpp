// Linear layers: epilogue(x W^T + bias).
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/address.hpp"
#include "core/dtype.hpp"
#include "core/support.hpp"
#include "ops/place.hpp"

namespace fovea::ops {

/// What `linear` does with y = x W^T + bias before it stores it.
enum class Epilogue : std::uint8_t {
  kNone,      // output = y
  kGeluTanh,  // output = y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 y^3)))
  kGeluErf,   // output = y / 2 * (1 + erf(y / sqrt(2)))
  kResidual,  // output += y
};

/// output = epilogue(input W^T + bias).
///   input [rows, in], W [out, in], bias [out] -> output [rows, out]
struct LinearProblem {
  Place place = Place::kOther;
  std::int64_t layer = 0;  // of the encoder, which has a layer for each place
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  Epilogue epilogue = Epilogue::kNone;
  DType input = DType::kF32;
  DType output = DType::kF32;
  bool row_scales = false;  // the input has them, see LayerNormProblem
  /// The input's rows go through the layer norm that the weights came with, with this eps. Asked
  /// only of backends whose can_run agrees; others do it as an operator of its own.
  bool norm = false;
  double eps = 1e-6;

  friend auto operator<=>(const LinearProblem&, const LinearProblem&) = default;
};

/// Dense, with weights as they are; u8 inputs go with i8 weights.
struct LinearOperands {
  Address input = 0;
  Address weight = 0;
  Address bias = 0;   // f32 (out), or none
  Address scale = 0;  // f32 (out) of i8 weights
  Address output = 0;
};

/// "gelu_tanh".
[[nodiscard]] std::string_view to_string(Epilogue epilogue);
/// "linear fc1: [784, 768] bf16 x [3072, 768]^T -> bf16, gelu_tanh".
[[nodiscard]] std::string to_string(const LinearProblem& problem);
/// Whether the problem makes sense on any device.
[[nodiscard]] Support valid(const LinearProblem& problem);

}  // namespace fovea::ops
