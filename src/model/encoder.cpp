// The SigLIP vision tower as a sequence of operators.
#include "model/encoder.hpp"

#include <utility>

#include "core/error.hpp"
#include "model/forward.hpp"
#include "model/vision_weights.hpp"

namespace fovea::model {
namespace {

void patch_embed(const VisionConfig& vision, const ops::PreparedPtr& weights,
                 ops::Executor& executor, const ops::Slice& slice, const TensorView& x) {
  executor.patch_embed({.images = slice.images,
                        .tokens = vision.tokens(),
                        .patch_elements = vision.patch_elements(),
                        .hidden = vision.hidden,
                        .output = x.dtype,
                        .position_side = vision.naflex ? vision.grid() : 0,
                        .total = slice.shapes.rows},
                       *weights, {slice.input, DType::kU8, {x.shape[0], vision.patch_elements()}},
                       x, slice.shapes);
}

/// The pooling head reads the stream's layer norm. Where there is no `post_norm`, the head has it.
void norm_pool(const VisionConfig& vision, const VisionWeights& weights, ops::Executor& executor,
               const ops::Slice& slice, Forward& forward) {
  if (weights.post_norm != nullptr) {
    forward.layer_norm(weights.post_norm, forward.x());
  }
  const TensorView& x = forward.x().values;
  executor.pool({.images = slice.images,
                 .tokens = vision.tokens(),
                 .heads = vision.heads,
                 .hidden = vision.hidden,
                 .mlp = vision.mlp,
                 .eps = vision.layer_norm_eps,
                 .input = x.dtype,
                 .norm = weights.post_norm == nullptr,
                 .varlen = vision.naflex,
                 .total = slice.shapes.rows},
                *weights.pool, x, {slice.output, DType::kF32, {slice.images, vision.hidden}},
                slice.shapes);
}

}  // namespace

Encoder::Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend)
    : config_(checkpoint.config()),
      backend_(std::move(backend)),
      weights_(std::make_unique<VisionWeights>(checkpoint, *backend_)) {}

Encoder::~Encoder() = default;

std::string Encoder::bf16_layers() const {
  return weights_->tower().bf16_layers(*backend_);
}

std::string Encoder::description() const {
  const std::string left_out = bf16_layers();
  return backend_->description() + (left_out.empty() ? "" : "; ") + left_out;
}

void Encoder::encode(std::span<const std::uint8_t> patches, std::int64_t images,
                     std::span<float> embeddings, StopFlag stop,
                     std::function<void(std::int64_t images)> on_computed) {
  if (config_.vision.naflex) {
    fail("this is a NaFlex model: each of the {} images needs a size in patches", images);
  }
  run(patches, images, {}, images * config_.vision.patches(), embeddings, stop,
      std::move(on_computed));
}

void Encoder::encode(std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                     std::span<float> embeddings, StopFlag stop,
                     std::function<void(std::int64_t images)> on_computed) {
  if (!config_.vision.naflex) {
    encode(patches, std::ssize(grids), embeddings, stop, std::move(on_computed));
    return;
  }
  std::int64_t rows = 0;
  for (const PatchGrid& grid : grids) {
    rows += grid.patches();
  }
  run(patches, std::ssize(grids), grids, rows, embeddings, stop, std::move(on_computed));
}

void Encoder::run(std::span<const std::uint8_t> patches, std::int64_t images,
                  std::span<const PatchGrid> grids, std::int64_t rows, std::span<float> embeddings,
                  StopFlag stop, std::function<void(std::int64_t images)> on_computed) {
  const VisionConfig& vision = config_.vision;
  const std::int64_t bytes = rows * vision.patch_elements();
  if (images < 0 || patches.size() != count(bytes) ||
      embeddings.size() != count(images * vision.hidden)) {
    fail("{} images need {} bytes of patches and {} numbers of embeddings, but got {} and {}",
         images, bytes, images * vision.hidden, patches.size(), embeddings.size());
  }
  if (images == 0) {
    return;
  }
  const TowerConfig tower = vision.tower();
  const DType stream = backend_->types().stream;
  const std::vector<LayerWeights>& layers = weights_->tower().layers();
  const ops::Batch batch{
      .images = images,
      .tokens = tower.tokens,
      .grids = grids,
      .input = patches,
      .output = embeddings,
      .workspace_bytes_per_image = Forward::workspace_bytes(tower, stream, layers),
      .stop = stop,
      .on_computed = std::move(on_computed)};
  backend_->run(batch, [&](ops::Executor& executor, const ops::Slice& slice) {
    Forward forward(tower, stream, layers, executor, slice);
    patch_embed(vision, weights_->patch_embed, executor, slice, forward.x().values);
    forward.run_layers();
    norm_pool(vision, *weights_, executor, slice, forward);
  });
}

}  // namespace fovea::model
