// Loads the vision tower's weights from the checkpoint, and folds other parameters into them.
#include "model/encoder_weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "model/calibration.hpp"

namespace fovea::model {
namespace {

using ops::LayerNormWeights;
using ops::LinearWeights;
using ops::PreparedPtr;
using ops::Stored;

constexpr std::string_view kEmbeddings = "vision_model.embeddings.";
constexpr std::string_view kHead = "vision_model.head.";
constexpr std::string_view kNorm1 = "layer_norm1";
constexpr std::string_view kNorm2 = "layer_norm2";

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

/// "<name>.weight" and "<name>.bias", held while a backend prepares them.
LayerParameters load_parameters(const Checkpoint& checkpoint, const std::string& name) {
  return {checkpoint.load(name + ".weight"), checkpoint.load(name + ".bias")};
}

LinearWeights linear_weights(const LayerParameters& parameters) {
  const auto out = static_cast<std::int64_t>(parameters.bias.size());
  return {.in = static_cast<std::int64_t>(parameters.weight.size()) / out,
          .out = out,
          .weight = parameters.weight.span(),
          .bias = parameters.bias.span()};
}

LayerNormWeights norm_weights(const LayerParameters& parameters) {
  return {.weight = parameters.weight.span(), .bias = parameters.bias.span()};
}

PreparedPtr prepare_patch_embed(const Checkpoint& checkpoint, ops::Backend& backend) {
  const VisionConfig& vision = checkpoint.config().vision;
  const Preprocessing& preprocessing = checkpoint.config().preprocessing;
  const LayerParameters conv =
      load_parameters(checkpoint, std::string(kEmbeddings) + "patch_embedding");
  const auto weight = channels_last(conv.weight, vision.hidden, vision.patch);
  const auto position = checkpoint.load(std::string(kEmbeddings) + "position_embedding.weight");
  ops::PatchEmbedWeights weights;
  weights.projection = linear_weights(conv);
  weights.projection.weight = weight.span();
  weights.position = position.span();
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double deviation = preprocessing.std[channel];
    weights.scale[channel] = preprocessing.rescale / deviation;
    weights.shift[channel] = -preprocessing.mean[channel] / deviation;
  }
  return backend.prepare(weights);
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

/// Whether the backend's pooling head normalises the tokens that it reads.
bool folds_post_norm(const VisionConfig& vision, const ops::Backend& backend) {
  return bool(backend.can_run(ops::PoolProblem{.images = 1,
                                               .tokens = vision.patches(),
                                               .heads = vision.heads,
                                               .hidden = vision.hidden,
                                               .mlp = vision.mlp,
                                               .eps = vision.layer_norm_eps,
                                               .input = backend.types().stream,
                                               .norm = true}));
}

/// `post_norm`: empty where it is an operator of its own.
PreparedPtr prepare_pool(const Checkpoint& checkpoint, ops::Backend& backend,
                         const LayerNormWeights& post_norm) {
  const VisionConfig& vision = checkpoint.config().vision;
  const std::size_t hidden = count(vision.hidden);
  const std::string head(kHead);
  const auto probe = checkpoint.load(head + "probe");
  const auto in_weight = checkpoint.load(head + "attention.in_proj_weight");
  const auto in_bias = checkpoint.load(head + "attention.in_proj_bias");
  const auto key = fold_probe(probe.span(), in_weight.span(), in_bias.span(), vision);
  const LayerParameters out = load_parameters(checkpoint, head + "attention.out_proj");
  const LayerParameters norm = load_parameters(checkpoint, head + "layernorm");
  const LayerParameters fc1 = load_parameters(checkpoint, head + "mlp.fc1");
  const LayerParameters fc2 = load_parameters(checkpoint, head + "mlp.fc2");
  return backend.prepare(ops::PoolWeights{
      .heads = vision.heads,
      .key = key.span(),
      .input_norm = post_norm,
      .value = {.in = vision.hidden,
                .out = vision.hidden,
                .weight = in_weight.span().subspan(2 * hidden * hidden),
                .bias = in_bias.span().subspan(2 * hidden)},
      .out = linear_weights(out),
      .norm = norm_weights(norm),
      .fc1 = linear_weights(fc1),
      .fc2 = linear_weights(fc2),
  });
}

/// Prepares one layer of the encoder for the types of its tensors.
class LayerPreparer {
 public:
  /// `calibration`: null when the layer is not computed in 8 bits.
  LayerPreparer(const Checkpoint& checkpoint, ops::Backend& backend, std::int64_t index,
                const Calibration* calibration)
      : checkpoint_(checkpoint),
        backend_(backend),
        index_(index),
        calibration_(calibration),
        types_(calibration != nullptr ? backend.types() : backend.types().widened()) {
    const VisionConfig& vision = checkpoint.config().vision;
    norms_folded_ = calibration == nullptr &&
                    folds_norm(3 * vision.hidden, ops::Epilogue::kNone, types_.qkv) &&
                    folds_norm(vision.mlp, ops::Epilogue::kGeluTanh, types_.inner);
  }

  [[nodiscard]] const ops::TensorTypes& types() const { return types_; }

  /// Null when the linear layer after it includes it.
  [[nodiscard]] PreparedPtr norm(std::string_view name) const {
    if (norms_folded_) {
      return nullptr;
    }
    LayerParameters parameters = load(name);
    if (calibration_ != nullptr) {
      const std::vector<float> divisor =
          calibration_->divisor(name == kNorm1 ? "qkv" : "fc1", index_,
                                static_cast<std::int64_t>(parameters.bias.size()));
      for (std::size_t i = 0; i < divisor.size(); ++i) {
        parameters.weight[i] /= divisor[i];
        parameters.bias[i] /= divisor[i];
      }
    }
    return backend_.prepare(norm_weights(parameters));
  }
  [[nodiscard]] PreparedPtr qkv() const {
    return prepare("qkv", {.type = types_.normed}, {.type = types_.qkv}, kNorm1);
  }
  [[nodiscard]] PreparedPtr out() const {
    const LayerParameters parameters = load("self_attn.out_proj");
    LinearWeights weights = linear_weights(parameters);
    weights.input = {.type = types_.attended};
    weights.output = {.type = types_.stream};
    return backend_.prepare(weights);
  }
  [[nodiscard]] PreparedPtr fc1() const {
    Stored inner = inner_type();
    if (calibration_ != nullptr) {  // fc1 writes what fc2 reads
      inner.scale = calibration_->input_scale(kPlaceOfStaticInputs, index_);
    }
    return prepare("fc1", {.type = types_.normed}, inner, kNorm2);
  }
  [[nodiscard]] PreparedPtr fc2() const {
    return prepare("fc2", inner_type(), {.type = types_.stream});
  }

 private:
  /// The activations between the two layers of an MLP, without their scale.
  [[nodiscard]] Stored inner_type() const {
    return {.type = types_.inner, .offset = types_.inner == DType::kI8 ? ops::kGeluI8Offset : 0};
  }
  /// Whether the backend normalises what a linear layer of the stream reads.
  [[nodiscard]] bool folds_norm(std::int64_t out, ops::Epilogue epilogue, DType output) const {
    const VisionConfig& vision = checkpoint_.config().vision;
    return bool(backend_.can_run(ops::LinearProblem{.rows = vision.patches(),
                                                    .in = vision.hidden,
                                                    .out = out,
                                                    .epilogue = epilogue,
                                                    .input = types_.stream,
                                                    .output = output,
                                                    .norm = true,
                                                    .eps = vision.layer_norm_eps}));
  }
  [[nodiscard]] LayerParameters load(std::string_view name) const {
    return load_parameters(checkpoint_,
                           fmt::format("vision_model.encoder.layers.{}.{}", index_, name));
  }

  /// `norm`: the parameters of the layer norm before it, if any.
  [[nodiscard]] PreparedPtr prepare(std::string_view place, Stored input, const Stored& output,
                                    std::string_view norm = {}) const {
    const LayerParameters parameters = load_layer(checkpoint_, place, index_);
    LinearWeights weights = linear_weights(parameters);
    weights.input = input;
    weights.output = output;
    LayerParameters folded;
    if (norms_folded_ && !norm.empty()) {
      folded = load(norm);
      weights.norm = norm_weights(folded);
      weights.input = {.type = types_.stream};
    }
    if (calibration_ == nullptr) {
      return backend_.prepare(weights);
    }
    const CalibratedLayer layer = calibration_->layer(place, index_, weights.out, weights.in);
    weights.bias = layer.bias;
    weights.rounded = layer.rounded.span();
    weights.rounded_scale = layer.scale;
    if (layer.input_scale > 0) {  // otherwise each row has its own scale
      weights.input.scale = layer.input_scale;
    }
    return backend_.prepare(weights);
  }

  const Checkpoint& checkpoint_;
  ops::Backend& backend_;
  std::int64_t index_;
  const Calibration* calibration_;
  ops::TensorTypes types_;
  bool norms_folded_ = false;
};

}  // namespace

LayerParameters load_layer(const Checkpoint& checkpoint, std::string_view place,
                           std::int64_t index) {
  const std::string layer = fmt::format("vision_model.encoder.layers.{}.", index);
  if (place != "qkv") {
    return load_parameters(checkpoint, layer + "mlp." + std::string(place));
  }
  LayerParameters all;
  std::size_t part = 0;
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    const LayerParameters one = load_parameters(checkpoint, layer + "self_attn." + name);
    if (part == 0) {
      all.weight = AlignedBuffer<float>(3 * one.weight.size());
      all.bias = AlignedBuffer<float>(3 * one.bias.size());
    }
    std::ranges::copy(one.weight.span(), all.weight.data() + part * one.weight.size());
    std::ranges::copy(one.bias.span(), all.bias.data() + part * one.bias.size());
    ++part;
  }
  return all;
}

EncoderWeights::EncoderWeights(const Checkpoint& checkpoint, ops::Backend& backend)
    : layers(count(checkpoint.config().vision.layers)) {
  std::optional<Calibration> calibration;
  if (backend.precision() == Precision::kInt8 || backend.precision() == Precision::kFp8) {
    calibration.emplace(checkpoint, backend.precision());
    bf16_layers = calibration->bf16_layers();
  }
  std::vector<std::function<void()>> tasks;
  tasks.emplace_back([&] { patch_embed = prepare_patch_embed(checkpoint, backend); });
  tasks.emplace_back([&] {
    const LayerParameters norm = load_parameters(checkpoint, "vision_model.post_layernorm");
    const bool folds = folds_post_norm(checkpoint.config().vision, backend);
    pool = prepare_pool(checkpoint, backend, folds ? norm_weights(norm) : LayerNormWeights{});
    if (!folds) {
      post_norm = backend.prepare(norm_weights(norm));
    }
  });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const LayerPreparer preparer(checkpoint, backend, index,
                                 calibration && index >= bf16_layers ? &*calibration : nullptr);
    Layer& layer = layers[i];
    layer.types = preparer.types();
    tasks.emplace_back([&layer, preparer] { layer.norm1 = preparer.norm(kNorm1); });
    tasks.emplace_back([&layer, preparer] { layer.norm2 = preparer.norm(kNorm2); });
    tasks.emplace_back([&layer, preparer] { layer.qkv = preparer.qkv(); });
    tasks.emplace_back([&layer, preparer] { layer.out = preparer.out(); });
    tasks.emplace_back([&layer, preparer] { layer.fc1 = preparer.fc1(); });
    tasks.emplace_back([&layer, preparer] { layer.fc2 = preparer.fc2(); });
  }
  backend.for_each(tasks.size(), [&](std::size_t index) { tasks[index](); });
}

}  // namespace fovea::model
