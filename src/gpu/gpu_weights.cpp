// Folding and rounding of weights; uploads.
#include "gpu/gpu_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/pixels.hpp"
#include "gpu/launch/pool.hpp"

namespace fovea::gpu {
namespace {

constexpr double kI8Max = 127.0;
/// Rows of bf16 operands are whole 16-byte units, and products have steps of 16.
constexpr std::int64_t kDepthMultiple = 16;
constexpr double kMiddlePixel = 127.5;

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

float largest(std::span<const float> row) {
  float peak = 0;
  for (const float value : row) {
    peak = std::max(peak, std::abs(value));
  }
  return peak;
}

void store_bf16(std::span<const float> from, std::byte* to) {
  for (const float value : from) {
    const BFloat16 rounded = to_bfloat16(value);
    std::memcpy(to, &rounded.bits, sizeof(rounded.bits));
    to += sizeof(rounded.bits);
  }
}

std::int8_t to_i8(float value) {
  return static_cast<std::int8_t>(
      std::lrint(std::clamp(static_cast<double>(value), -kI8Max, kI8Max)));
}

/// One row in steps of `scale`.
void store_scaled(std::span<const float> from, DType type, float scale, std::byte* to) {
  const float inverse = 1.0F / scale;
  for (const float value : from) {
    *to++ = type == DType::kE4M3 ? std::byte{to_e4m3(value * inverse).bits}
                                 : static_cast<std::byte>(to_i8(value * inverse));
  }
}

}  // namespace

namespace {

/// (x * scale + shift) gamma W^T + beta W^T + bias: gamma goes into W and beta into the bias. The
/// sums are of the weights as they are rounded, so that a row's mean cancels exactly.
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
  if (packed.type != DType::kBF16 && packed.type != DType::kE4M3 && packed.type != DType::kI8) {
    fail("the GPU has no linear layers for inputs of {}", to_string(weights.input.type));
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
    fail("inputs with an offset are i8, not {}", to_string(packed.type));
  }
  if (weights.output.type == DType::kI8 && weights.output.offset != ops::kGeluI8Offset) {
    fail("i8 outputs have the offset {}, not {}", ops::kGeluI8Offset, weights.output.offset);
  }
  const auto most = packed.type == DType::kE4M3 ? kE4M3Max : static_cast<float>(kI8Max);
  packed.column_scale.resize(out);
  for (std::size_t o = 0; o < out; ++o) {
    std::byte* const stored = packed.weight.data() + o * in;
    float scale = 1.0F;
    if (!weights.rounded.empty()) {
      std::memcpy(stored, weights.rounded.data() + o * in, in);
      scale = weights.rounded_scale[o];
    } else {
      const auto row = weights.weight.subspan(o * in, in);
      const float peak = largest(row);
      scale = peak > 0 ? peak / most : 1.0F;
      store_scaled(row, packed.type, scale, stored);
    }
    packed.column_scale[o] = scale * weights.input.scale;
    if (weights.input.offset != 0) {  // the product takes what is stored
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < in; ++i) {
        sum += static_cast<std::int8_t>(stored[i]);
      }
      packed.bias[o] += static_cast<float>(double{packed.column_scale[o]} *
                                           static_cast<double>(weights.input.offset * sum));
    }
  }
  return packed;
}

PackedPatchEmbed pack_patch_embed(const ops::PatchEmbedWeights& weights, DType pixels) {
  const std::size_t in = count(weights.projection.in);
  const std::size_t out = count(weights.projection.out);
  PackedPatchEmbed packed;
  packed.depth = pixels == DType::kBF16 ? (weights.projection.in + kDepthMultiple - 1) /
                                              kDepthMultiple * kDepthMultiple
                                        : weights.projection.in;
  const std::size_t depth = count(packed.depth);

  // v * scale + shift = (v - centre) * scale + (centre * scale + shift): the scale goes into the
  // weights and the constant into the position table.
  const double centre = pixels == DType::kBF16 ? kPixelCentre : kMiddlePixel;
  std::vector<float> scaled(depth * out);
  std::vector<double> constant(out);
  for (std::size_t o = 0; o < out; ++o) {
    constant[o] = weights.projection.bias[o];
    for (std::size_t i = 0; i < in; ++i) {
      const double weight = weights.projection.weight[o * in + i];
      const double scale = weights.scale[i % 3];
      scaled[o * depth + i] = static_cast<float>(weight * scale);
      constant[o] += weight * (centre * scale + weights.shift[i % 3]);
    }
  }
  const std::vector<float> no_bias(out);
  packed.projection = pack_linear({.in = packed.depth,
                                   .out = weights.projection.out,
                                   .weight = scaled,
                                   .bias = no_bias,
                                   .input = {.type = pixels}});
  if (pixels == DType::kU8) {
    // The product takes v, not v - centre, and the weights that it has, not those it should have.
    for (std::size_t o = 0; o < out; ++o) {
      double sum = 0;
      for (std::size_t i = 0; i < in; ++i) {
        sum += static_cast<std::int8_t>(packed.projection.weight[o * in + i]);
      }
      constant[o] -= centre * sum * packed.projection.column_scale[o];
    }
  }
  packed.position.resize(weights.position.size());
  for (std::size_t i = 0; i < weights.position.size(); ++i) {
    packed.position[i] = static_cast<float>(weights.position[i] + constant[i % out]);
  }
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
  stream_->synchronize();  // the host memory may go
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
  if (!packed.column_sum.empty()) {
    linear.column_sum = uploader.upload(packed.column_sum);
  }
  return linear;
}

DevicePatchEmbed upload(Uploader& uploader, const PackedPatchEmbed& packed) {
  return {.projection = upload(uploader, packed.projection),
          .depth = packed.depth,
          .position = uploader.upload_bf16(packed.position)};
}

DevicePool upload(Uploader& uploader, const ops::PoolWeights& weights) {
  const auto linear = [&](ops::LinearWeights layer) {
    layer.input = layer.output = {.type = DType::kBF16};
    return upload(uploader, pack_linear(layer));
  };
  const std::size_t hidden = weights.input_norm.weight.size();
  std::vector<float> keys(weights.key.begin(), weights.key.end());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] *= weights.input_norm.weight[i % hidden];
  }
  const PackedPoolKeys packed = pack_pool_keys(keys, weights.value.in);
  ops::LinearWeights value = weights.value;
  value.norm = weights.input_norm;
  return {.keys = uploader.upload(std::as_bytes(std::span(packed.keys))),
          .key_sums = uploader.upload(packed.sums),
          .norm = upload(uploader, weights.norm),
          .value = linear(value),
          .out = linear(weights.out),
          .fc1 = linear(weights.fc1),
          .fc2 = linear(weights.fc2)};
}

}  // namespace fovea::gpu
