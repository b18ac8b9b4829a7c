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

/// A linear layer on the host: y = column_scale * (x . weight) + bias. If a layer norm is folded
/// into it: y = scale * (x . weight) + shift * column_sum + bias, where `weight` and `bias` include
/// those of the norm, and the norm maps a row x to x * scale + shift.
struct PackedLinear {
  DType type = DType::kBF16;
  std::vector<std::byte> weight;         // (out, in), of `type`
  std::vector<float> column_scale;       // (out); empty for bf16 and MXFP8
  std::vector<Float8E8M0> block_scales;  // for MXFP8, in atoms (ops/block_scales.hpp)
  std::vector<float> column_sum;  // (out), sums of the rows of `weight`; empty without a norm
  std::vector<float> bias;        // (out)
  ops::Stored output;
};

/// Rounds weights to weight_type(input): bf16, MXFP8, or e4m3 or i8 with a scale per output that
/// maps its largest weight to 448 or 127. Weights that calibration has rounded are used unchanged;
/// MXFP8 does not support them. The input's scale is multiplied into the column scales. Norms can
/// be folded into bf16 weights only.
[[nodiscard]] PackedLinear pack_linear(const ops::LinearWeights& weights);

/// The patch embedding on the host: y = column_scale * (pixels . weight) + position. Pixels are
/// either u8, with i8 weights, or bf16 with the value pixel - 128.
struct PackedPatchEmbed {
  PackedLinear projection;      // with `depth` inputs; its bias is part of `position`
  std::int64_t depth = 0;       // elements of a patch, padded with zeros for bf16
  std::vector<float> position;  // (tokens, hidden)
  bool is_resized = false;      // whether the device resizes the position table for each image
};

/// Folds the normalisation of pixels and the bias into weights and positions. `pixels` is kU8 or
/// kBF16.
[[nodiscard]] PackedPatchEmbed pack_patch_embed(const ops::PatchEmbedWeights& weights,
                                                DType pixels);

/// Copies host memory to the device through one stream. Thread-safe.
class Uploader {
 public:
  /// `precision` is the precision of products with the weights.
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
  DeviceBuffer block_scales;  // for MXFP8
  DeviceBuffer column_sum;    // empty without a norm
  DeviceBuffer bias;
  DeviceBuffer bias_bf16;  // for cuBLASLt, which needs the bias in the type of the output
};

[[nodiscard]] DeviceNorm upload(Uploader& uploader, const ops::LayerNormWeights& weights);
[[nodiscard]] DeviceLinear upload(Uploader& uploader, const PackedLinear& packed);
/// Uploads a linear layer whose input, weights and output are bf16.
[[nodiscard]] DeviceLinear upload_bf16_linear(Uploader& uploader, ops::LinearWeights layer);
/// Returns the addresses of such a layer for the kernels of the pooling head.
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
