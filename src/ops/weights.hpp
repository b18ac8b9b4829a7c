// What weights of all operators have in common: how numbers are stored, and a backend's own form.
#pragma once

#include <memory>

#include "core/dtype.hpp"

namespace fovea::ops {

/// How a tensor holds numbers: those of one-byte types are number / scale - offset, rounded. Where
/// rows have scales of their own, those come on top.
struct Stored {
  DType type = DType::kF32;
  float scale = 1.0F;
  int offset = 0;
};

/// The offset of GELU's results as i8, which are never less than -0.1701: most of the 256 numbers
/// are for what is positive.
inline constexpr int kGeluI8Offset = 96;
/// The least scale with which such a result is no less than -127.
inline constexpr float kLeastGeluI8Scale = 0.1701F / (127 - kGeluI8Offset);

/// Weights in the form a backend computes with; only the backend that made them knows it.
class Prepared {
 public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
};
using PreparedPtr = std::unique_ptr<const Prepared>;

}  // namespace fovea::ops
