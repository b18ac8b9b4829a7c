// What the operators' declarations have in common: devices, places, stored numbers, prepared
// weights, and images of different sizes.
//
// Each operator's op.hpp declares, for a Problem, Weights and a Call:
//   to_string(problem), as messages have it
//   valid(problem): whether it makes sense on any device
//   check(call): throws fovea::Error unless the problem makes sense and the operands fit it
//   check_weights(weights): throws fovea::Error when a span's length does not fit the shapes
//   can_run(problem, ...): whether a backend of the device runs the problem
// and its parts for each device, which get what is checked:
//   prepare(weights, ...): the weights in the device's form
//   run(call, executor); the reference keeps copies of weights: keep(weights, storage)
//   run(problem, operands, ...): on tensors that the caller holds, all of which have memory
#pragma once

#include <compare>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/address.hpp"
#include "core/dtype.hpp"
#include "core/support.hpp"
#include "core/tensor_view.hpp"

namespace fovea::cpu {
class CpuExecutor;
class HostThreads;
struct CpuTypes;
}  // namespace fovea::cpu

namespace fovea::gpu {
class CallerStream;
class Device;
class GpuExecutor;
class Uploader;
}  // namespace fovea::gpu

namespace fovea::ops::reference {
class ReferenceExecutor;
class Storage;
}  // namespace fovea::ops::reference

namespace fovea::ops {

/// Places of the network: where a linear layer stands, and where time is spent.
enum class Place : std::uint8_t {
  kPixels,  // what prepares pixels for the patch embedding
  kPatchEmbed,
  kLayerNorm,
  kQkv,
  kAttention,
  kOut,
  kFc1,
  kFc2,
  kPool,
  kOther,
};
/// Names in the order of Place.
inline constexpr std::string_view kPlaceNames[] = {"pixels",    "patch_embed", "layer_norm", "qkv",
                                                   "attention", "out",         "fc1",        "fc2",
                                                   "pool",      "other"};
inline constexpr std::size_t kPlaces = std::size(kPlaceNames);

/// "patch_embed".
[[nodiscard]] constexpr std::string_view to_string(Place place) {
  return kPlaceNames[static_cast<std::size_t>(place)];
}

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
inline constexpr float kMinGeluI8Scale = 0.1701F / (127 - kGeluI8Offset);

/// Weights in the form a backend computes with; only the backend that made them knows it.
class Prepared {
 public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
};
using PreparedPtr = std::unique_ptr<const Prepared>;

/// Images with different numbers of tokens: where each lies in tensors [rows, ...] that hold
/// several without gaps, in the memory of the executor's device. Without addresses all images have
/// the same number of rows.
struct ImageShapes {
  std::int64_t rows = 0;  // of all images together
  Address starts = 0;     // int32 (images + 1): the first row of each image, from 0, and `rows`
  Address grids = 0;      // int32 (images, 2): height and width in patches

  [[nodiscard]] bool differ() const { return starts != 0; }
};

}  // namespace fovea::ops
