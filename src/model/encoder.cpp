// The SigLIP vision tower as a sequence of operators.
#include "model/encoder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "model/encoder_weights.hpp"

namespace fovea::model {
namespace {

using ops::Epilogue;
using ops::Place;
using ops::PreparedPtr;

/// A tensor whose rows may have scales of their own.
struct ScaledTensor {
  TensorView values;
  TensorView scales{};  // f32 [rows]; without memory when there are none

  [[nodiscard]] bool scaled() const { return scales.data != nullptr; }
};

/// Where the activations of a slice lie in its workspace, in bytes from its start: first the
/// residual stream [rows, hidden], and then what each layer uses anew, in the types of that layer.
struct Layout {
  std::size_t normed = 0;  // [rows, hidden], and `attended`: they are never alive together
  std::size_t scales = 0;  // of the rows of normed
  std::size_t inner = 0;   // [rows, mlp], and `qkv` [rows, 3 * hidden], for the same reason
  std::size_t bytes = 0;   // for one image; n times as many hold n, since padding does not grow

  Layout(const VisionConfig& vision, std::int64_t rows, DType stream,
         std::span<const EncoderWeights::Layer> layers) {
    std::size_t largest_normed = 0;
    std::size_t largest_inner = 0;
    for (const EncoderWeights::Layer& layer : layers) {
      const ops::TensorTypes& types = layer.types;
      largest_normed = std::max({largest_normed, padded_bytes(rows, vision.hidden, types.normed),
                                 padded_bytes(rows, vision.hidden, types.attended)});
      largest_inner = std::max({largest_inner, padded_bytes(rows, 3 * vision.hidden, types.qkv),
                                padded_bytes(rows, vision.mlp, types.inner)});
    }
    normed = padded_bytes(rows, vision.hidden, stream);
    scales = normed + largest_normed;
    inner = scales + padded_bytes(rows, 1, DType::kF32);
    bytes = inner + largest_inner;
  }

 private:
  /// Bytes of a tensor, up to the next aligned one.
  static std::size_t padded_bytes(std::int64_t rows, std::int64_t width, DType type) {
    const std::size_t bytes = count(rows * width) * size_of(type);
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
};

/// The activations of a layer.
struct Activations {
  ScaledTensor normed;
  ScaledTensor attended;
  ScaledTensor qkv;
  ScaledTensor inner;
};

/// Runs one slice through the network.
class Forward {
 public:
  Forward(const VisionConfig& vision, DType stream, const EncoderWeights& weights,
          ops::Executor& executor, const ops::Slice& slice)
      : vision_(vision),
        executor_(executor),
        slice_(slice),
        rows_(slice.images * vision.patches()),
        x_{.values = {slice.workspace, stream, {rows_, vision.hidden}}},
        layout_(vision, rows_, stream, weights.layers) {}

  /// The residual stream [rows, hidden].
  [[nodiscard]] const ScaledTensor& x() const { return x_; }
  [[nodiscard]] Activations activations(const ops::TensorTypes& types) const {
    std::byte* const base = slice_.workspace;
    Activations found{
        .normed = {{base + layout_.normed, types.normed, {rows_, vision_.hidden}}},
        .attended = {{base + layout_.normed, types.attended, {rows_, vision_.hidden}}},
        .qkv = {{base + layout_.inner, types.qkv, {rows_, 3 * vision_.hidden}}},
        .inner = {{base + layout_.inner, types.inner, {rows_, vision_.mlp}}}};
    if (types.row_scales) {
      found.normed.scales = {base + layout_.scales, DType::kF32, {rows_}};
    }
    return found;
  }

  void patch_embed(const PreparedPtr& weights) {
    executor_.patch_embed({.images = slice_.images,
                           .tokens = vision_.patches(),
                           .patch_elements = vision_.patch_elements(),
                           .hidden = vision_.hidden,
                           .output = x_.values.dtype},
                          *weights, {slice_.input, DType::kU8, {rows_, vision_.patch_elements()}},
                          x_.values);
  }

  void layer_norm(const PreparedPtr& weights, const ScaledTensor& output) {
    executor_.layer_norm({.rows = rows_,
                          .width = vision_.hidden,
                          .eps = vision_.layer_norm_eps,
                          .input = x_.values.dtype,
                          .output = output.values.dtype,
                          .row_scales = output.scaled()},
                         *weights, x_.values, output.values, output.scales);
  }

  void linear(Place place, std::int64_t layer, const PreparedPtr& weights,
              const ScaledTensor& input, const ScaledTensor& output,
              Epilogue epilogue = Epilogue::kNone) {
    executor_.linear({.place = place,
                      .layer = layer,
                      .rows = rows_,
                      .in = input.values.shape[1],
                      .out = output.values.shape[1],
                      .epilogue = epilogue,
                      .input = input.values.dtype,
                      .output = output.values.dtype,
                      .row_scales = input.scaled()},
                     *weights, input.values, output.values, input.scales);
  }

  /// Runs a linear layer that reads the stream's layer norm, which goes to `normed`. Without
  /// `norm`, the layer includes it.
  void norm_linear(Place place, std::int64_t layer, const PreparedPtr& norm,
                   const PreparedPtr& weights, const ScaledTensor& normed,
                   const ScaledTensor& output, Epilogue epilogue = Epilogue::kNone) {
    if (norm != nullptr) {
      layer_norm(norm, normed);
      linear(place, layer, weights, normed, output, epilogue);
      return;
    }
    executor_.linear({.place = place,
                      .layer = layer,
                      .rows = rows_,
                      .in = vision_.hidden,
                      .out = output.values.shape[1],
                      .epilogue = epilogue,
                      .input = x_.values.dtype,
                      .output = output.values.dtype,
                      .norm = true,
                      .eps = vision_.layer_norm_eps},
                     *weights, x_.values, output.values);
  }

  void attention(const ScaledTensor& qkv, const ScaledTensor& output) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(vision_.head_dim()));
    executor_.attention(ops::packed_attention(slice_.images, vision_.patches(), vision_.heads,
                                              vision_.head_dim(), scale, qkv.values.dtype),
                        qkv.values, output.values);
  }

  /// The pooling head reads the stream's layer norm. Where there is no `norm`, the head has it.
  void norm_pool(const PreparedPtr& norm, const PreparedPtr& weights) {
    if (norm != nullptr) {
      layer_norm(norm, x_);
    }
    executor_.pool({.images = slice_.images,
                    .tokens = vision_.patches(),
                    .heads = vision_.heads,
                    .hidden = vision_.hidden,
                    .mlp = vision_.mlp,
                    .eps = vision_.layer_norm_eps,
                    .input = x_.values.dtype,
                    .norm = norm == nullptr},
                   *weights, x_.values,
                   {slice_.output, DType::kF32, {slice_.images, vision_.hidden}});
  }

 private:
  const VisionConfig& vision_;
  ops::Executor& executor_;
  const ops::Slice& slice_;
  std::int64_t rows_;
  ScaledTensor x_;
  Layout layout_;
};

}  // namespace

Encoder::Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend)
    : config_(checkpoint.config()),
      backend_(std::move(backend)),
      weights_(std::make_unique<EncoderWeights>(checkpoint, *backend_)) {}

Encoder::~Encoder() = default;

std::string Encoder::bf16_layers() const {
  const std::int64_t layers = weights_->bf16_layers;
  return layers == 0
             ? ""
             : fmt::format("the first {} of {} layers are in {}", layers, weights_->layers.size(),
                           backend_->types().qkv == DType::kF32 ? "fp32" : "bf16");
}

std::string Encoder::description() const {
  const std::string left_out = bf16_layers();
  return backend_->description() + (left_out.empty() ? "" : "; ") + left_out;
}

void Encoder::encode(std::span<const std::uint8_t> patches, std::int64_t images,
                     std::span<float> embeddings, StopFlag stop,
                     std::function<void(std::int64_t images)> on_computed) {
  const VisionConfig& vision = config_.vision;
  const std::int64_t image_bytes = vision.patches() * vision.patch_elements();
  if (images < 0 || patches.size() != count(images * image_bytes) ||
      embeddings.size() != count(images * vision.hidden)) {
    fail("{} images need {} bytes of patches and {} numbers of embeddings, but got {} and {}",
         images, images * image_bytes, images * vision.hidden, patches.size(), embeddings.size());
  }
  if (images == 0) {
    return;
  }
  const DType stream = backend_->types().stream;
  const ops::Batch batch{
      .images = images,
      .tokens = vision.patches(),
      .input = patches,
      .output = embeddings,
      .workspace_bytes_per_image = Layout(vision, vision.patches(), stream, weights_->layers).bytes,
      .stop = stop,
      .on_computed = std::move(on_computed)};
  backend_->run(batch, [&](ops::Executor& executor, const ops::Slice& slice) {
    Forward forward(vision, stream, *weights_, executor, slice);
    forward.patch_embed(weights_->patch_embed);
    std::int64_t index = 0;
    for (const auto& layer : weights_->layers) {
      const auto [normed, attended, qkv, inner] = forward.activations(layer.types);
      forward.norm_linear(Place::kQkv, index, layer.norm1, layer.qkv, normed, qkv);
      forward.attention(qkv, attended);
      forward.linear(Place::kOut, index, layer.out, attended, forward.x(), Epilogue::kResidual);

      forward.norm_linear(Place::kFc1, index, layer.norm2, layer.fc1, normed, inner,
                          Epilogue::kGeluTanh);
      forward.linear(Place::kFc2, index, layer.fc2, inner, forward.x(), Epilogue::kResidual);
      ++index;
    }
    forward.norm_pool(weights_->post_norm, weights_->pool);
  });
}

}  // namespace fovea::model
