// Weights as a model file gives them: float32 in host memory. Backends prepare their own form.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

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

/// weight [width], bias [width].
struct LayerNormWeights {
  std::span<const float> weight{};
  std::span<const float> bias{};
};

/// y = x weight^T + bias: weight [out, in], bias [out].
struct LinearWeights {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::span<const float> weight{};
  std::span<const float> bias{};
  /// Backends that compute in narrow types take their weights' type from the input's.
  Stored input{};
  Stored output{};
  /// When calibration has rounded the weights to one byte already: [out, in], and a scale for each
  /// output, weight[o, i] ~ rounded[o, i] * rounded_scale[o]. `bias` is then the corrected one.
  std::span<const std::uint8_t> rounded{};
  std::span<const float> rounded_scale{};
  /// The layer norm that the input goes through first, when LinearProblem::norm says so.
  LayerNormWeights norm{};
};

/// A pixel value v of channel c enters the projection as v * scale[c] + shift[c].
struct PatchEmbedWeights {
  LinearWeights projection;           // weight [hidden, p * p * 3] in (row, column, channel) order
  std::span<const float> position{};  // [tokens, hidden]
  std::int64_t position_side = 0;     // see PatchEmbedProblem: [position_side^2, hidden]
  std::span<const float> prefix{};    // [PatchEmbedProblem::prefix, hidden], with their positions
  std::array<double, 3> scale{1, 1, 1};
  std::array<double, 3> shift{0, 0, 0};
};

/// See PoolProblem.
struct PoolWeights {
  std::int64_t heads = 0;
  std::span<const float> key{};  // [heads, hidden]
  /// The layer norm that the tokens go through first, when PoolProblem::norm says so.
  LayerNormWeights input_norm{};
  LinearWeights value;
  LinearWeights out;
  LayerNormWeights norm;
  LinearWeights fc1;
  LinearWeights fc2;
};

/// See ProjectProblem.
struct ProjectWeights {
  LayerNormWeights norm;
  LinearWeights linear{};  // without numbers when the problem is not projected
};

/// Weights in the form a backend computes with; only the backend that made them knows it.
class Prepared {
 public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
};
using PreparedPtr = std::unique_ptr<const Prepared>;

/// Throws fovea::Error when a span's length does not fit the shapes.
void check_weights(const LinearWeights& weights);
void check_weights(const LayerNormWeights& weights);
void check_weights(const PatchEmbedWeights& weights);
void check_weights(const PoolWeights& weights);
void check_weights(const ProjectWeights& weights);

}  // namespace fovea::ops
