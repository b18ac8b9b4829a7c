// Folds, rounds and packs weights on the host for the GPU's kernels, and uploads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "fovea/precision.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/pool.hpp"
#include "ops/call.hpp"
#include "ops/layer_norm/op.hpp"
#include "ops/linear/op.hpp"
#include "ops/patch_embed/op.hpp"

namespace fovea::gpu {

/// A linear layer on the host: y = column_scale * (x . weight) + bias. With a norm before it, whose
/// weight and bias are then in these: y = scale * (x . weight) + shift * column_sum + bias, where
/// the row's normalised x is x * scale + shift.
struct PackedLinear {
  DType type = DType::kBF16;
  std::vector<std::byte> weight;         // (out, in), of `type`
  std::vector<float> column_scale;       // (out); empty for bf16 and MXFP8
  std::vector<Float8E8M0> block_scales;  // of MXFP8, in atoms (ops/block_scales.hpp)
  std::vector<float> column_sum;         // (out), the sum over in of `weight`; empty without a norm
  std::vector<float> bias;               // (out)
  ops::Stored output;
};

/// Rounds to weight_type(input): bf16, MXFP8, or e4m3 or i8 with a scale for each output, whose
/// largest weight becomes 448 or 127. What calibration has rounded is taken as it is, which MXFP8
/// has none of. The input's scale goes into the scales. Norms are folded into bf16 only.
[[nodiscard]] PackedLinear pack_linear(const ops::LinearWeights& weights);

/// The patch embedding on the host: y = column_scale * (pixels . weight) + position, where pixels
/// are u8 as they are, with i8 weights, or bf16 of value - 128.
struct PackedPatchEmbed {
  PackedLinear projection;      // rows of `depth`; its bias is in the position table
  std::int64_t depth = 0;       // elements of a patch, padded with zeros for bf16
  std::vector<float> position;  // (tokens, hidden)
  bool is_resized = false;      // the position table, on the device
};

/// Folds normalisation, bias and position together, for pixels as kU8 or kBF16.
[[nodiscard]] PackedPatchEmbed pack_patch_embed(const ops::PatchEmbedWeights& weights,
                                                DType pixels);

/// Copies host memory to the device through one stream. Thread-safe.
class Uploader {
 public:
  /// `precision` is what the weights are to be computed in.
  Uploader(Device& device, Precision precision)
      : device_(device), precision_(precision), stream_(device.make_stream()) {}

  [[nodiscard]] Precision precision() const { return precision_; }

  [[nodiscard]] DeviceBuffer upload(std::span<const std::byte> bytes);
  [[nodiscard]] DeviceBuffer upload(std::span<const float> values) {
    return upload(std::as_bytes(values));
  }
  [[nodiscard]] DeviceBuffer upload_bf16(std::span<const float> values);

 private:
  Device& device_;
  Precision precision_;
  std::mutex mutex_;
  std::unique_ptr<Stream> stream_;
};

struct DeviceNorm {
  DeviceBuffer weight;
  DeviceBuffer bias;
};

struct DeviceLinear {
  DType type = DType::kBF16;
  ops::Stored output;
  DeviceBuffer weight;
  DeviceBuffer column_scale;  // empty for bf16 and MXFP8
  DeviceBuffer block_scales;  // of MXFP8
  DeviceBuffer column_sum;    // empty without a norm
  DeviceBuffer bias;
  DeviceBuffer bias_bf16;  // for the vendor's library, which wants the output's type
};

[[nodiscard]] DeviceNorm upload(Uploader& uploader, const ops::LayerNormWeights& weights);
[[nodiscard]] DeviceLinear upload(Uploader& uploader, const PackedLinear& packed);
/// A linear layer in bf16 throughout.
[[nodiscard]] DeviceLinear upload_bf16_linear(Uploader& uploader, ops::LinearWeights layer);
/// Such a layer as the heads' kernels take it.
[[nodiscard]] PoolLinear pool_linear(const DeviceLinear& layer);

/// Weights on the device, wrapped as ops::Prepared.
template <typename T>
struct OnDevice : ops::Prepared {
  explicit OnDevice(T weights) : value(std::move(weights)) {}
  T value;
};
template <typename T>
[[nodiscard]] ops::PreparedPtr on_device(T weights) {
  return std::make_unique<OnDevice<T>>(std::move(weights));
}
template <typename T>
[[nodiscard]] const T& uploaded(const ops::Prepared& prepared) {
  return dynamic_cast<const OnDevice<T>&>(prepared).value;
}

}  // namespace fovea::gpu
