// The SigLIP vision tower as a sequence of operators.
#include "model/encoder.hpp"

#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "model/forward.hpp"
#include "model/vision_weights.hpp"

namespace fovea::model {
namespace {

void patch_embed(const VisionConfig& vision, const ops::PreparedPtr& weights,
                 ops::Executor& executor, const ops::Slice& slice, const TensorView& x) {
  const ops::PatchEmbedProblem problem =
      patch_embed_problem(vision, x.dtype, slice.images, slice.shapes.rows);
  executor.run(
      ops::PatchEmbedCall{problem,
                          *weights,
                          {slice.input, DType::kU8, {problem.patches(), problem.patch_elements}},
                          x,
                          slice.shapes});
}

/// Computes the embedding of each image in the slice: with the pooling head from the normalised
/// stream, or from the normalised first token.
void pool_images(const VisionConfig& vision, const VisionWeights& weights, ops::Executor& executor,
                 const ops::Slice& slice, Forward& forward, const TensorView& output) {
  const TensorView& x = forward.x().values;
  if (vision.pooling == Pooling::kToken) {
    executor.run(
        ops::ProjectCall{token_problem(vision, x.dtype, slice.images), *weights.pool, x, output});
    return;
  }
  if (!weights.pool_has_norm) {
    forward.layer_norm(weights.post_norm, forward.x());
  }
  ops::PoolProblem problem = pool_problem(vision, x.dtype, slice.images, slice.shapes.rows);
  problem.norm = weights.pool_has_norm;
  executor.run(ops::PoolCall{problem, *weights.pool, x, output, slice.shapes});
}

/// Computes the pooling head for each token separately, as if it were the only token of an image.
void pool_tokens(const VisionConfig& vision, const VisionWeights& weights, ops::Executor& executor,
                 Forward& forward, const TensorView& output) {
  if (!weights.pool_has_norm) {
    forward.layer_norm(weights.post_norm, forward.x());
  }
  const TensorView& x = forward.x().values;
  ops::PoolProblem problem = pool_problem(vision, x.dtype, x.shape[0], 0);
  problem.tokens = 1;
  problem.varlen = false;
  problem.norm = weights.pool_has_norm;
  executor.run(ops::PoolCall{problem, *weights.pool, x, output});
}

/// Returns the number of patches in images of these sizes, which matter only for a NaFlex model.
std::int64_t patch_count(const VisionConfig& vision, std::span<const PatchGrid> grids) {
  if (!vision.naflex) {
    return std::ssize(grids) * vision.patches();
  }
  std::int64_t rows = 0;
  for (const PatchGrid& grid : grids) {
    rows += grid.patches();
  }
  return rows;
}

}  // namespace

Encoder::Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend)
    : config_(checkpoint.config()),
      backend_(std::move(backend)),
      weights_(std::make_unique<VisionWeights>(checkpoint, *backend_)) {}

Encoder::~Encoder() = default;

std::string Encoder::calibration_words() const {
  return weights_->tower().calibration_words(*backend_);
}

std::string Encoder::description() const {
  const std::string words = calibration_words();
  return backend_->description() + (words.empty() ? "" : "; ") + words;
}

void Encoder::encode(std::span<const std::uint8_t> patches, std::int64_t images,
                     std::span<float> embeddings, StopFlag stop,
                     std::function<void(std::int64_t images)> on_computed) {
  if (config_.vision.naflex) {
    fail("this is a NaFlex model: each of the {} images needs a size in patches", images);
  }
  if (images < 0) {
    fail("invalid number of images {}", images);
  }
  const std::vector<PatchGrid> grids(count(images));
  encode(patches, grids, embeddings, stop, std::move(on_computed));
}

void Encoder::encode(std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                     std::span<float> embeddings, StopFlag stop,
                     std::function<void(std::int64_t images)> on_computed) {
  features({.kind = Features::Kind::kPooled}, patches, grids,
           {.type = DType::kF32, .bytes = std::as_writable_bytes(embeddings)}, stop,
           std::move(on_computed));
}

void require(const VisionConfig& vision, const Features& what) {
  using Kind = Features::Kind;
  if (what.kind == Kind::kPatches && vision.pooling == Pooling::kToken) {
    fail(
        "the model has no pooling head that attends to patches, so that patches have no "
        "embeddings; "
        "for features of patches, use {}",
        feature_words());
  }
  if ((what.kind == Kind::kPooled || what.kind == Kind::kPatches) &&
      vision.pooling == Pooling::kNone) {
    fail(
        "the model has no pooling head (vision_use_head is false), so that images have no "
        "embeddings; for features of their patches, use {}",
        feature_words());
  }
  if (what.kind == Kind::kHidden && (what.layers < 0 || what.layers > vision.layers)) {
    fail("there is no output after {} layers; the model has {}", what.layers, vision.layers);
  }
}

void Encoder::features(const Features& what, std::span<const std::uint8_t> patches,
                       std::span<const PatchGrid> grids, const FeatureOutput& output, StopFlag stop,
                       std::function<void(std::int64_t images)> on_computed) {
  using Kind = Features::Kind;
  const VisionConfig& vision = config_.vision;
  require(vision, what);
  if (vision.naflex && what.of_tokens() && grids.size() > 1) {
    fail("images of a NaFlex model have different numbers of tokens; pass one at a time, not {}",
         grids.size());
  }
  const std::int64_t patch_rows = patch_count(vision, grids);
  const std::int64_t results =
      what.of_tokens() ? patch_rows + std::ssize(grids) * vision.prefix_tokens : std::ssize(grids);
  const std::size_t bytes = count(results * vision.hidden) * size_of(output.type);
  const std::size_t pixels = count(patch_rows * vision.patch_elements());
  if (patches.size() != pixels || output.bytes.size() != bytes) {
    fail("{} images need {} bytes of patches and {} of results, but got {} and {}", grids.size(),
         pixels, bytes, patches.size(), output.bytes.size());
  }
  if (grids.empty()) {
    return;
  }
  const std::int64_t layers = what.kind == Kind::kHidden ? what.layers : vision.layers;
  const bool floats = output.type == DType::kF32;
  const auto finish = [&](ops::Executor& executor, const ops::Slice& slice, Forward& forward) {
    const TensorView& x = forward.x().values;
    const std::int64_t slice_rows = what.of_tokens() ? x.shape[0] : slice.images;
    const TensorView target{slice.output, output.type, {slice_rows, vision.hidden}};
    // f16 results are first computed in an f32 buffer.
    const TensorView wide{
        floats ? target.data : forward.floats().data, DType::kF32, {slice_rows, vision.hidden}};
    switch (what.kind) {
      case Kind::kHidden:
        return executor.run(ops::ConvertCall{x, target});
      case Kind::kLast:
        forward.layer_norm(weights_->post_norm, {.values = wide});
        break;
      case Kind::kPooled:
        pool_images(vision, *weights_, executor, slice, forward, wide);
        break;
      case Kind::kPatches:
        pool_tokens(vision, *weights_, executor, forward, wide);
        break;
    }
    if (!floats) {
      executor.run(ops::ConvertCall{wide, target});
    }
  };
  run({.images = std::ssize(grids),
       .grids = vision.naflex ? grids : std::span<const PatchGrid>(),
       .input = patches,
       .output = output.bytes,
       .output_stays = output.stays,
       .network = {.layers = layers,
                   .output_kind = static_cast<std::uint8_t>(what.kind),
                   .output = output.type},
       .stop = stop,
       .on_computed = std::move(on_computed)},
      layers, finish);
}

void Encoder::run(ops::Batch batch, std::int64_t layer_count, const Finish& finish) {
  const VisionConfig& vision = config_.vision;
  const TowerSpec tower = vision.tower();
  const DType stream = backend_->types().stream;
  const std::vector<LayerWeights>& layers = weights_->tower().layers();
  batch.tokens = tower.tokens;
  batch.workspace_bytes_per_image = Forward::workspace_bytes(tower, stream, layers);
  backend_->run(batch, [&](ops::Executor& executor, const ops::Slice& slice) {
    Forward forward(tower, stream, layers, executor, slice);
    patch_embed(vision, weights_->patch_embed, executor, slice, forward.x().values);
    forward.run_layers(count(layer_count));
    finish(executor, slice, forward);
  });
}

}  // namespace fovea::model
