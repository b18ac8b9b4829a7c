// The SigLIP vision tower as a sequence of operators.
#include "model/encoder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

/// The activations of a slice, in its workspace.
struct Activations {
  ScaledTensor x;         // [rows, hidden], the residual stream
  ScaledTensor normed;    // [rows, hidden]
  ScaledTensor attended;  // [rows, hidden], in the memory of normed: they are never alive together
  ScaledTensor qkv;       // [rows, 3 * hidden]
  ScaledTensor inner;     // [rows, mlp], in the memory of qkv, for the same reason

  Activations(std::byte* base, std::int64_t images, const VisionConfig& vision,
              const ops::Backend& backend) {
    const std::int64_t rows = images * vision.patches();
    const ops::TensorTypes types = backend.types();
    std::byte* const after_x = base + padded_bytes(rows, vision.hidden, types.stream);
    std::byte* const after_normed =
        after_x + std::max(padded_bytes(rows, vision.hidden, types.normed),
                           padded_bytes(rows, vision.hidden, types.attended));
    std::byte* const after_scales = after_normed + padded_bytes(rows, 1, DType::kF32);
    x.values = {base, types.stream, {rows, vision.hidden}};
    normed.values = {after_x, types.normed, {rows, vision.hidden}};
    attended.values = {after_x, types.attended, {rows, vision.hidden}};
    if (types.row_scales) {
      normed.scales = {after_normed, DType::kF32, {rows}};
    }
    qkv.values = {after_scales, types.qkv, {rows, 3 * vision.hidden}};
    inner.values = {after_scales, types.inner, {rows, vision.mlp}};
  }

  /// Bytes for one image. n times as many hold n images, because padding does not grow with them.
  static std::size_t bytes_per_image(const VisionConfig& vision, const ops::Backend& backend) {
    const std::int64_t rows = vision.patches();
    const ops::TensorTypes types = backend.types();
    return padded_bytes(rows, vision.hidden, types.stream) +
           std::max(padded_bytes(rows, vision.hidden, types.normed),
                    padded_bytes(rows, vision.hidden, types.attended)) +
           padded_bytes(rows, 1, DType::kF32) +
           std::max(padded_bytes(rows, 3 * vision.hidden, types.qkv),
                    padded_bytes(rows, vision.mlp, types.inner));
  }

 private:
  /// Bytes of a tensor, up to the next aligned one.
  static std::size_t padded_bytes(std::int64_t rows, std::int64_t width, DType type) {
    const std::size_t bytes = count(rows * width) * size_of(type);
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
};

/// Runs one slice through the network.
class Forward {
 public:
  Forward(const VisionConfig& vision, const ops::Backend& backend, ops::Executor& executor,
          const ops::Slice& slice)
      : vision_(vision),
        executor_(executor),
        slice_(slice),
        rows_(slice.images * vision.patches()),
        stream_(backend.types().stream),
        memory_(slice.workspace, slice.images, vision, backend) {}

  void patch_embed(const PreparedPtr& weights) {
    executor_.patch_embed({.images = slice_.images,
                           .tokens = vision_.patches(),
                           .patch_elements = vision_.patch_elements(),
                           .hidden = vision_.hidden,
                           .output = stream_},
                          *weights, {slice_.input, DType::kU8, {rows_, vision_.patch_elements()}},
                          memory_.x.values);
  }

  void layer_norm(const PreparedPtr& weights, const ScaledTensor& output) {
    executor_.layer_norm({.rows = rows_,
                          .width = vision_.hidden,
                          .eps = vision_.layer_norm_eps,
                          .input = stream_,
                          .output = output.values.dtype,
                          .row_scales = output.scaled()},
                         *weights, memory_.x.values, output.values, output.scales);
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

  /// Runs a linear layer that reads the stream's layer norm. Without `norm`, the layer includes it.
  void norm_linear(Place place, std::int64_t layer, const PreparedPtr& norm,
                   const PreparedPtr& weights, const ScaledTensor& output,
                   Epilogue epilogue = Epilogue::kNone) {
    if (norm != nullptr) {
      layer_norm(norm, memory_.normed);
      linear(place, layer, weights, memory_.normed, output, epilogue);
      return;
    }
    executor_.linear({.place = place,
                      .layer = layer,
                      .rows = rows_,
                      .in = vision_.hidden,
                      .out = output.values.shape[1],
                      .epilogue = epilogue,
                      .input = stream_,
                      .output = output.values.dtype,
                      .norm = true,
                      .eps = vision_.layer_norm_eps},
                     *weights, memory_.x.values, output.values);
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
      layer_norm(norm, memory_.x);
    }
    executor_.pool({.images = slice_.images,
                    .tokens = vision_.patches(),
                    .heads = vision_.heads,
                    .hidden = vision_.hidden,
                    .mlp = vision_.mlp,
                    .eps = vision_.layer_norm_eps,
                    .input = stream_,
                    .norm = norm == nullptr},
                   *weights, memory_.x.values,
                   {slice_.output, DType::kF32, {slice_.images, vision_.hidden}});
  }

  [[nodiscard]] const Activations& memory() const { return memory_; }

 private:
  const VisionConfig& vision_;
  ops::Executor& executor_;
  const ops::Slice& slice_;
  std::int64_t rows_;
  DType stream_;
  Activations memory_;
};

}  // namespace

Encoder::Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend)
    : config_(checkpoint.config()),
      backend_(std::move(backend)),
      weights_(std::make_unique<EncoderWeights>(checkpoint, *backend_)) {}

Encoder::~Encoder() = default;

void Encoder::encode(std::span<const std::uint8_t> patches, std::int64_t images,
                     std::span<float> embeddings, StopFlag stop) {
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
  const ops::Batch batch{
      .images = images,
      .tokens = vision.patches(),
      .input = patches,
      .output = embeddings,
      .workspace_bytes_per_image = Activations::bytes_per_image(vision, *backend_),
      .stop = stop};
  backend_->run(batch, [&](ops::Executor& executor, const ops::Slice& slice) {
    Forward forward(vision, *backend_, executor, slice);
    const auto& [x, normed, attended, qkv, inner] = forward.memory();
    forward.patch_embed(weights_->patch_embed);
    std::int64_t index = 0;
    for (const auto& layer : weights_->layers) {
      forward.norm_linear(Place::kQkv, index, layer.norm1, layer.qkv, qkv);
      forward.attention(qkv, attended);
      forward.linear(Place::kOut, index, layer.out, attended, x, Epilogue::kResidual);

      forward.norm_linear(Place::kFc1, index, layer.norm2, layer.fc1, inner, Epilogue::kGeluTanh);
      forward.linear(Place::kFc2, index, layer.fc2, inner, x, Epilogue::kResidual);
      ++index;
    }
    forward.norm_pool(weights_->post_norm, weights_->pool);
  });
}

}  // namespace fovea::model
