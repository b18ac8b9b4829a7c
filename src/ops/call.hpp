// Common declarations of the operators: devices, places, stored numbers, prepared weights, and
// images of different sizes.
//
// Each operator's op.hpp declares, for a Problem, Weights and a Call:
//   to_string(problem): the text for messages
//   valid(problem): whether it is valid, regardless of the device
//   check(call): throws fovea::Error unless the problem is valid and the operands match it
//   check_weights(weights): throws fovea::Error when a span's length does not match the shapes
//   can_run(problem, ...): whether a backend of the device supports the problem
// and implementations for each device, whose arguments have been checked:
//   prepare(weights, ...): converts the weights to the device's format
//   run(call, executor); for the reference also keep(weights, storage), which copies the weights
//   run(problem, operands, ...): computes on tensors of the caller, none of which is null
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

/// Places of operators in the network, to name linear layers and to measure time.
enum class Place : std::uint8_t {
  kPixels,  // preparation of pixels for the patch embedding
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

/// Such as "patch_embed".
[[nodiscard]] constexpr std::string_view to_string(Place place) {
  return kPlaceNames[static_cast<std::size_t>(place)];
}

/// How a tensor stores numbers: one-byte types store number / scale - offset, rounded. Where each
/// row has its own scale, that applies in addition.
struct Stored {
  DType type = DType::kF32;
  float scale = 1.0F;
  int offset = 0;
};

/// The offset of GELU's results stored as i8. They are never less than -0.1701, so most of the 256
/// values represent positive numbers.
inline constexpr int kGeluI8Offset = 96;
/// The smallest scale with which these results are stored as -127 or more.
inline constexpr float kMinGeluI8Scale = 0.1701F / (127 - kGeluI8Offset);

/// Weights in a backend's internal format; usable only with the backend that prepared them.
class Prepared {
 public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
};
using PreparedPtr = std::unique_ptr<const Prepared>;

/// The positions of images with different numbers of tokens, concatenated in tensors [rows, ...].
/// The addresses refer to memory of the executor's device; without them all images have the same
/// number of rows.
struct ImageShapes {
  std::int64_t rows = 0;  // total of all images
  Address starts = 0;     // int32 (images + 1): the first row of each image, from 0, and `rows`
  Address grids = 0;      // int32 (images, 2): height and width in patches

  [[nodiscard]] bool differ() const { return starts != 0; }
};

}  // namespace fovea::ops
