// The SigLIP vision tower as a sequence of operators, and its weights from the checkpoint.
#include "model/encoder.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::model {
namespace {

using ops::Epilogue;
using ops::LayerNormWeights;
using ops::LinearWeights;
using ops::PreparedPtr;

constexpr std::string_view kEmbeddings = "vision_model.embeddings.";
constexpr std::string_view kHead = "vision_model.head.";

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// Loads "<name>.weight" and "<name>.bias", and holds them while a backend prepares them.
struct Parameters {
  AlignedBuffer<float> weight;
  AlignedBuffer<float> bias;

  Parameters(const Checkpoint& checkpoint, const std::string& name)
      : weight(checkpoint.load(name + ".weight")), bias(checkpoint.load(name + ".bias")) {}

  [[nodiscard]] LinearWeights linear() const {
    const auto out = static_cast<std::int64_t>(bias.size());
    return {.in = static_cast<std::int64_t>(weight.size()) / out,
            .out = out,
            .weight = weight.span(),
            .bias = bias.span()};
  }
  [[nodiscard]] LayerNormWeights norm() const {
    return {.weight = weight.span(), .bias = bias.span()};
  }
};

/// The convolution's weight [hidden, 3, p, p] in the order of patches, [hidden, p, p, 3].
AlignedBuffer<float> channels_last(const AlignedBuffer<float>& weight, std::int64_t hidden,
                                   std::int64_t patch) {
  AlignedBuffer<float> out(weight.size());
  const std::size_t area = count(patch * patch);
  for (std::size_t o = 0; o < count(hidden); ++o) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t i = 0; i < area; ++i) {
        out[(o * area + i) * 3 + channel] = weight[(o * 3 + channel) * area + i];
      }
    }
  }
  return out;
}

PreparedPtr prepare_patch_embed(const Checkpoint& checkpoint, ops::Backend& backend) {
  const VisionConfig& vision = checkpoint.config().vision;
  const Preprocessing& preprocessing = checkpoint.config().preprocessing;
  const Parameters conv(checkpoint, std::string(kEmbeddings) + "patch_embedding");
  const auto weight = channels_last(conv.weight, vision.hidden, vision.patch);
  const auto position = checkpoint.load(std::string(kEmbeddings) + "position_embedding.weight");
  ops::PatchEmbedWeights weights;
  weights.projection = conv.linear();
  weights.projection.weight = weight.span();
  weights.position = position.span();
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double deviation = preprocessing.std[channel];
    weights.scale[channel] = preprocessing.rescale / deviation;
    weights.shift[channel] = -preprocessing.mean[channel] / deviation;
  }
  return backend.prepare(weights);
}

/// q_proj, k_proj and v_proj as one layer of [3 * hidden, hidden].
PreparedPtr prepare_qkv(const Checkpoint& checkpoint, ops::Backend& backend,
                        const std::string& attention) {
  const VisionConfig& vision = checkpoint.config().vision;
  const std::size_t hidden = count(vision.hidden);
  AlignedBuffer<float> weight(3 * hidden * hidden);
  AlignedBuffer<float> bias(3 * hidden);
  std::size_t part = 0;
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    const Parameters one(checkpoint, attention + name);
    std::ranges::copy(one.weight.span(), weight.data() + part * hidden * hidden);
    std::ranges::copy(one.bias.span(), bias.data() + part * hidden);
    ++part;
  }
  return backend.prepare(LinearWeights{
      .in = vision.hidden, .out = 3 * vision.hidden, .weight = weight.span(), .bias = bias.span()});
}

/// Folds the probe's query into the keys: head i's score of token x is x . key[i] with
/// key[i] = scale * Wk_i^T q_i. K's bias adds the same to all scores of a head and cancels.
AlignedBuffer<float> fold_probe(std::span<const float> probe, std::span<const float> in_weight,
                                std::span<const float> in_bias, const VisionConfig& vision) {
  const std::size_t hidden = count(vision.hidden);
  const std::size_t head_dim = count(vision.head_dim());
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  AlignedBuffer<float> key(count(vision.heads) * hidden);
  std::vector<double> sum(hidden);
  for (std::size_t head = 0; head < count(vision.heads); ++head) {
    std::ranges::fill(sum, 0.0);
    for (std::size_t row = head * head_dim; row < (head + 1) * head_dim; ++row) {
      double query = in_bias[row];
      for (std::size_t i = 0; i < hidden; ++i) {
        query += static_cast<double>(in_weight[row * hidden + i]) * probe[i];
      }
      const auto wk = in_weight.subspan((hidden + row) * hidden, hidden);
      for (std::size_t i = 0; i < hidden; ++i) {
        sum[i] += scale * query * wk[i];
      }
    }
    std::ranges::transform(sum, key.data() + head * hidden,
                           [](double value) { return static_cast<float>(value); });
  }
  return key;
}

PreparedPtr prepare_pool(const Checkpoint& checkpoint, ops::Backend& backend) {
  const VisionConfig& vision = checkpoint.config().vision;
  const std::size_t hidden = count(vision.hidden);
  const std::string head(kHead);
  const auto probe = checkpoint.load(head + "probe");
  const auto in_weight = checkpoint.load(head + "attention.in_proj_weight");
  const auto in_bias = checkpoint.load(head + "attention.in_proj_bias");
  const auto key = fold_probe(probe.span(), in_weight.span(), in_bias.span(), vision);
  const Parameters out(checkpoint, head + "attention.out_proj");
  const Parameters norm(checkpoint, head + "layernorm");
  const Parameters fc1(checkpoint, head + "mlp.fc1");
  const Parameters fc2(checkpoint, head + "mlp.fc2");
  return backend.prepare(ops::PoolWeights{
      .heads = vision.heads,
      .key = key.span(),
      .value = {.in = vision.hidden,
                .out = vision.hidden,
                .weight = in_weight.span().subspan(2 * hidden * hidden),
                .bias = in_bias.span().subspan(2 * hidden)},
      .out = out.linear(),
      .norm = norm.norm(),
      .fc1 = fc1.linear(),
      .fc2 = fc2.linear(),
  });
}

/// Where a slice's activations lie in its workspace.
struct Activations {
  TensorView x;       // [rows, hidden], the residual stream
  TensorView normed;  // [rows, hidden], a norm's output, then attention's
  TensorView qkv;     // [rows, 3 * hidden]
  TensorView inner;   // [rows, mlp], in the memory of qkv: they are never alive together

  Activations(std::byte* base, std::int64_t images, const VisionConfig& vision,
              const ops::Backend& backend) {
    const std::int64_t rows = images * vision.patches();
    const DType stream = backend.stream_type();
    const DType activation = backend.activation_type();
    std::byte* const after_x = base + padded_bytes(rows, vision.hidden, stream);
    std::byte* const after_normed = after_x + padded_bytes(rows, vision.hidden, activation);
    x = {base, stream, {rows, vision.hidden}};
    normed = {after_x, activation, {rows, vision.hidden}};
    qkv = {after_normed, activation, {rows, 3 * vision.hidden}};
    inner = {after_normed, activation, {rows, vision.mlp}};
  }

  /// Bytes for one image; n times as many hold n images, for padding does not grow with them.
  static std::size_t bytes_per_image(const VisionConfig& vision, const ops::Backend& backend) {
    const std::int64_t rows = vision.patches();
    const DType activation = backend.activation_type();
    return padded_bytes(rows, vision.hidden, backend.stream_type()) +
           padded_bytes(rows, vision.hidden, activation) +
           padded_bytes(rows, std::max(3 * vision.hidden, vision.mlp), activation);
  }

 private:
  /// Bytes of a tensor, up to the next aligned one.
  static std::size_t padded_bytes(std::int64_t rows, std::int64_t width, DType type) {
    const std::size_t bytes = count(rows * width) * size_of(type);
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
};

}  // namespace

struct Encoder::Weights {
  struct Layer {
    PreparedPtr norm1;
    PreparedPtr qkv;
    PreparedPtr out;
    PreparedPtr norm2;
    PreparedPtr fc1;
    PreparedPtr fc2;
  };

  PreparedPtr patch_embed;
  std::vector<Layer> layers;
  PreparedPtr post_norm;
  PreparedPtr pool;

  /// Loads and prepares every tensor, several at a time; only those in work are held as float32.
  Weights(const Checkpoint& checkpoint, ops::Backend& backend)
      : layers(count(checkpoint.config().vision.layers)) {
    std::vector<std::function<void()>> tasks;
    const auto linear = [&](PreparedPtr& place, std::string name) {
      tasks.emplace_back([&, name = std::move(name)] {
        place = backend.prepare(Parameters(checkpoint, name).linear());
      });
    };
    const auto norm = [&](PreparedPtr& place, std::string name) {
      tasks.emplace_back([&, name = std::move(name)] {
        place = backend.prepare(Parameters(checkpoint, name).norm());
      });
    };
    tasks.emplace_back([&] { pool = prepare_pool(checkpoint, backend); });
    tasks.emplace_back([&] { patch_embed = prepare_patch_embed(checkpoint, backend); });
    norm(post_norm, "vision_model.post_layernorm");
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string name = fmt::format("vision_model.encoder.layers.{}.", i);
      norm(layers[i].norm1, name + "layer_norm1");
      tasks.emplace_back(
          [&, i, name] { layers[i].qkv = prepare_qkv(checkpoint, backend, name + "self_attn."); });
      linear(layers[i].out, name + "self_attn.out_proj");
      norm(layers[i].norm2, name + "layer_norm2");
      linear(layers[i].fc1, name + "mlp.fc1");
      linear(layers[i].fc2, name + "mlp.fc2");
    }
    backend.for_each(tasks.size(), [&](std::size_t index) { tasks[index](); });
  }
};

namespace {

/// One slice through the network.
class Forward {
 public:
  Forward(const VisionConfig& vision, const ops::Backend& backend, ops::Lane& lane,
          const ops::Slice& slice)
      : vision_(vision),
        lane_(lane),
        slice_(slice),
        rows_(slice.images * vision.patches()),
        stream_(backend.stream_type()),
        activation_(backend.activation_type()),
        memory_(slice.workspace, slice.images, vision, backend) {}

  void patch_embed(const PreparedPtr& weights) {
    lane_.patch_embed({.images = slice_.images,
                       .tokens = vision_.patches(),
                       .patch_elements = vision_.patch_elements(),
                       .hidden = vision_.hidden,
                       .output = stream_},
                      *weights, {slice_.input, DType::kU8, {rows_, vision_.patch_elements()}},
                      memory_.x);
  }

  void layer_norm(const PreparedPtr& weights, const TensorView& output) {
    lane_.layer_norm({.rows = rows_,
                      .width = vision_.hidden,
                      .eps = vision_.layer_norm_eps,
                      .input = stream_,
                      .output = output.dtype},
                     *weights, memory_.x, output);
  }

  void linear(std::string_view name, const PreparedPtr& weights, const TensorView& input,
              const TensorView& output, Epilogue epilogue = Epilogue::kNone) {
    lane_.linear({.name = name,
                  .rows = rows_,
                  .in = input.shape[1],
                  .out = output.shape[1],
                  .epilogue = epilogue,
                  .input = input.dtype,
                  .output = output.dtype},
                 *weights, input, output);
  }

  void attention(const TensorView& qkv, const TensorView& output) {
    lane_.attention({.images = slice_.images,
                     .tokens = vision_.patches(),
                     .heads = vision_.heads,
                     .head_dim = vision_.head_dim(),
                     .scale = 1.0 / std::sqrt(static_cast<double>(vision_.head_dim())),
                     .type = activation_},
                    qkv, output);
  }

  void pool(const PreparedPtr& weights) {
    lane_.pool({.images = slice_.images,
                .tokens = vision_.patches(),
                .heads = vision_.heads,
                .hidden = vision_.hidden,
                .mlp = vision_.mlp,
                .eps = vision_.layer_norm_eps,
                .input = stream_},
               *weights, memory_.x, {slice_.output, DType::kF32, {slice_.images, vision_.hidden}});
  }

  [[nodiscard]] const Activations& memory() const { return memory_; }

 private:
  const VisionConfig& vision_;
  ops::Lane& lane_;
  const ops::Slice& slice_;
  std::int64_t rows_;
  DType stream_;
  DType activation_;
  Activations memory_;
};

}  // namespace

Encoder::Encoder(const Checkpoint& checkpoint, std::unique_ptr<ops::Backend> backend)
    : config_(checkpoint.config()),
      backend_(std::move(backend)),
      weights_(std::make_unique<Weights>(checkpoint, *backend_)) {}

Encoder::~Encoder() = default;

void Encoder::encode(std::span<const std::uint8_t> patches, std::int64_t images,
                     std::span<float> embeddings) {
  const VisionConfig& vision = config_.vision;
  const std::int64_t image_bytes = vision.patches() * vision.patch_elements();
  if (images < 0 || patches.size() != count(images * image_bytes) ||
      embeddings.size() != count(images * vision.hidden)) {
    fail("{} images take {} bytes of patches and {} numbers of embeddings; {} and {} were given",
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
      .workspace_bytes_per_image = Activations::bytes_per_image(vision, *backend_)};
  backend_->run(batch, [&](ops::Lane& lane, const ops::Slice& slice) {
    Forward forward(vision, *backend_, lane, slice);
    const auto& [x, normed, qkv, inner] = forward.memory();
    forward.patch_embed(weights_->patch_embed);
    for (const auto& layer : weights_->layers) {
      forward.layer_norm(layer.norm1, normed);
      forward.linear("qkv", layer.qkv, normed, qkv);
      forward.attention(qkv, normed);
      forward.linear("out", layer.out, normed, x, Epilogue::kResidual);

      forward.layer_norm(layer.norm2, normed);
      forward.linear("fc1", layer.fc1, normed, inner, Epilogue::kGeluTanh);
      forward.linear("fc2", layer.fc2, inner, x, Epilogue::kResidual);
    }
    forward.layer_norm(weights_->post_norm, x);
    forward.pool(weights_->pool);
  });
}

}  // namespace fovea::model
