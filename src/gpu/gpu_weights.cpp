// Folds, rounds and uploads weights.
#include "gpu/gpu_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/launch/gemm.hpp"
#include "ops/block_scales.hpp"
#include "ops/rounding.hpp"

namespace fovea::gpu {
namespace {

/// Rows of bf16 operands are padded to a multiple of this: kernels take steps of 16 elements.
constexpr std::int64_t kDepthMultiple = 16;

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

float max_magnitude(std::span<const float> row) {
  float magnitude = 0;
  for (const float value : row) {
    magnitude = std::max(magnitude, std::abs(value));
  }
  return magnitude;
}

void store_bf16(std::span<const float> from, std::byte* to) {
  for (const float value : from) {
    const BFloat16 rounded = to_bfloat16(value);
    std::memcpy(to, &rounded.bits, sizeof(rounded.bits));
    to += sizeof(rounded.bits);
  }
}

void pack_i8(const ops::LinearWeights& weights, PackedLinear& packed) {
  ops::RoundedLinear rounded = round_to_i8(weights);
  std::memcpy(packed.weight.data(), rounded.weight.data(), rounded.weight.size());
  packed.column_scale = std::move(rounded.scale);
  packed.bias = std::move(rounded.bias);
}

/// Rounds to e4m3 with a scale per output that maps the output's largest weight to 448.
void pack_e4m3(const ops::LinearWeights& weights, PackedLinear& packed) {
  const std::size_t in = count(weights.in);
  packed.column_scale.resize(count(weights.out));
  for (std::size_t o = 0; o < packed.column_scale.size(); ++o) {
    std::byte* const stored = packed.weight.data() + o * in;
    float scale = 1.0F;
    if (!weights.rounded.empty()) {
      std::memcpy(stored, weights.rounded.data() + o * in, in);
      scale = weights.rounded_scale[o];
    } else {
      const auto row = weights.weight.subspan(o * in, in);
      const float peak = max_magnitude(row);
      scale = peak > 0 ? peak / static_cast<float>(kE4M3Max) : 1.0F;
      const float inverse = 1.0F / scale;
      std::ranges::transform(row, stored,
                             [&](float value) { return std::byte{to_e4m3(value * inverse).bits}; });
    }
    packed.column_scale[o] = scale * weights.input.scale;
  }
}

void pack_mxfp8(const ops::LinearWeights& weights, PackedLinear& packed) {
  if (!weights.rounded.empty()) {
    fail("calibrated weights cannot have block scales");
  }
  ops::RoundedBlocks rounded = ops::round_to_blocks(weights.weight, weights.out, weights.in);
  std::memcpy(packed.weight.data(), rounded.numbers.data(), rounded.numbers.size());
  packed.block_scales = std::move(rounded.scales);
}

/// Folds gamma and beta of (x * scale + shift) gamma W^T + beta W^T + bias into W and the bias. The
/// column sums are those of the rounded weights, so that a row's mean cancels exactly.
void pack_with_norm(const ops::LinearWeights& weights, PackedLinear& packed) {
  const std::size_t in = count(weights.in);
  const std::size_t out = count(weights.out);
  packed.column_sum.resize(out);
  std::vector<float> row(in);
  for (std::size_t o = 0; o < out; ++o) {
    double sum = 0;
    double bias = weights.bias[o];
    for (std::size_t i = 0; i < in; ++i) {
      const float weight = weights.weight[o * in + i];
      row[i] = weight * weights.norm.weight[i];
      sum += double{to_float(to_bfloat16(row[i]))};
      bias += double{weight} * double{weights.norm.bias[i]};
    }
    store_bf16(row, packed.weight.data() + o * in * sizeof(BFloat16));
    packed.column_sum[o] = static_cast<float>(sum);
    packed.bias[o] = static_cast<float>(bias);
  }
}

}  // namespace

PackedLinear pack_linear(const ops::LinearWeights& weights) {
  const std::size_t in = count(weights.in);
  const std::size_t out = count(weights.out);
  PackedLinear packed;
  packed.type = weight_type(weights.input.type);
  if (packed.type != DType::kBF16 && packed.type != DType::kE4M3 && packed.type != DType::kMXFP8 &&
      packed.type != DType::kI8) {
    fail("linear layers with inputs of type {} are not supported on GPUs",
         to_string(weights.input.type));
  }
  packed.output = weights.output;
  packed.weight.resize(in * out * size_of(packed.type));
  packed.bias.assign(weights.bias.begin(), weights.bias.end());
  const bool normed = !weights.norm.weight.empty();
  if (packed.type == DType::kBF16) {
    if (normed) {
      pack_with_norm(weights, packed);
    } else {
      store_bf16(weights.weight, packed.weight.data());
    }
    return packed;
  }
  if (normed) {
    fail("norms are folded into bf16 weights only, not {}", to_string(packed.type));
  }
  if (weights.input.offset != 0 && packed.type != DType::kI8) {
    fail("inputs with an offset must be i8, not {}", to_string(packed.type));
  }
  if (weights.output.type == DType::kI8 && weights.output.offset != ops::kGeluI8Offset) {
    fail("i8 outputs must have the offset {}, not {}", ops::kGeluI8Offset, weights.output.offset);
  }
  if (packed.type == DType::kI8) {
    pack_i8(weights, packed);
  } else if (packed.type == DType::kMXFP8) {
    pack_mxfp8(weights, packed);
  } else {
    pack_e4m3(weights, packed);
  }
  return packed;
}

PackedPatchEmbed pack_patch_embed(const ops::PatchEmbedWeights& weights, DType pixels) {
  PackedPatchEmbed packed;
  packed.depth = pixels == DType::kU8
                     ? weights.projection.in
                     : divide_up(weights.projection.in, kDepthMultiple) * kDepthMultiple;
  ops::FoldedPatchEmbed folded = fold_pixels(weights, pixels, packed.depth);
  packed.projection = pack_linear(folded.projection());
  packed.position = std::move(folded.position);
  packed.is_resized = weights.position_side > 0;
  return packed;
}

DeviceBuffer Uploader::upload(std::span<const std::byte> bytes) {
  DeviceBuffer buffer;
  try {
    buffer = DeviceBuffer(device_, bytes.size());
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        fmt::format("{}. The model's weights do not fit: free memory on the GPU, or use {}",
                    error.what(), option_words("device", "cpu")));
  }
  const std::lock_guard lock(mutex_);
  device_.copy_to_device(buffer.address(), bytes, *stream_);
  stream_->synchronize();  // the caller may free the host memory now
  return buffer;
}

DeviceBuffer Uploader::upload_bf16(std::span<const float> values) {
  std::vector<std::byte> rounded(values.size() * sizeof(BFloat16));
  store_bf16(values, rounded.data());
  return upload(rounded);
}

DeviceNorm upload(Uploader& uploader, const ops::LayerNormWeights& weights) {
  return {.weight = uploader.upload(weights.weight), .bias = uploader.upload(weights.bias)};
}

DeviceLinear upload(Uploader& uploader, const PackedLinear& packed) {
  DeviceLinear linear;
  linear.type = packed.type;
  linear.output = packed.output;
  linear.weight = uploader.upload(packed.weight);
  linear.bias = uploader.upload(packed.bias);
  linear.bias_bf16 = uploader.upload_bf16(packed.bias);
  if (!packed.column_scale.empty()) {
    linear.column_scale = uploader.upload(packed.column_scale);
  }
  if (!packed.block_scales.empty()) {
    linear.block_scales = uploader.upload(std::as_bytes(std::span(packed.block_scales)));
  }
  if (!packed.column_sum.empty()) {
    linear.column_sum = uploader.upload(packed.column_sum);
  }
  return linear;
}

DeviceLinear upload_bf16_linear(Uploader& uploader, ops::LinearWeights layer) {
  layer.input = layer.output = {.type = DType::kBF16};
  return upload(uploader, pack_linear(layer));
}

PoolLinear pool_linear(const DeviceLinear& layer) {
  return {.weight = layer.weight.address(), .bias = layer.bias.address()};
}

}  // namespace fovea::gpu
