// Loads the weights of a tower's layers from the checkpoint, or for 8-bit precisions from the
// calibration.
#include "model/layer_weights.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/text.hpp"

namespace fovea::model {
namespace {

using ops::LayerNormWeights;
using ops::LinearWeights;
using ops::Place;
using ops::PreparedPtr;
using ops::Stored;

/// Prepares one layer of a tower for the types of its tensors.
class LayerPreparer {
 public:
  /// `calibration`: null when the precision is not calibrated, or this layer is in bf16.
  LayerPreparer(const Checkpoint& checkpoint, ops::Backend& backend, std::int64_t index,
                const Calibration* calibration)
      : checkpoint_(checkpoint),
        tower_(checkpoint.tower()),
        backend_(backend),
        index_(index),
        calibration_(calibration),
        types_(calibration == nullptr && info_of(backend.precision()).calibrated
                   ? backend.types().widened()
                   : backend.types()) {
    norms_folded_ = size_of(types_.normed) > 1 &&
                    folds_norm(3 * tower_.hidden, ops::Epilogue::kNone, types_.qkv) &&
                    folds_norm(tower_.mlp, tower_.activation, types_.inner);
  }

  [[nodiscard]] const ops::TensorTypes& types() const { return types_; }

  /// Prepares a norm. Returns null if the linear layer after the norm includes it.
  [[nodiscard]] PreparedPtr norm(Part part) const {
    if (norms_folded_) {
      return nullptr;
    }
    LayerParameters parameters = load(part);
    if (calibration_ != nullptr) {
      const std::vector<float> divisor =
          calibration_->divisor(part == Part::kNorm1 ? Place::kQkv : Place::kFc1, index_,
                                static_cast<std::int64_t>(parameters.bias.size()));
      for (std::size_t i = 0; i < divisor.size(); ++i) {
        parameters.weight[i] /= divisor[i];
        parameters.bias[i] /= divisor[i];
      }
    }
    return backend_.prepare(norm_weights(parameters));
  }
  [[nodiscard]] PreparedPtr qkv() const {
    return prepare(Place::kQkv, {.type = types_.normed}, {.type = types_.qkv}, Part::kNorm1);
  }
  [[nodiscard]] PreparedPtr out() const {
    const LayerParameters parameters = load(Part::kOut);
    LinearWeights weights = linear_weights(parameters);
    weights.input = {.type = types_.attended};
    weights.output = {.type = types_.stream};
    return backend_.prepare(weights);
  }
  [[nodiscard]] PreparedPtr fc1() const {
    Stored inner = inner_type();
    if (calibration_ != nullptr) {  // the output of fc1 is the input of fc2
      inner.scale = calibration_->input_scale(kPlaceOfStaticInputs, index_);
    }
    return prepare(Place::kFc1, {.type = types_.normed}, inner, Part::kNorm2);
  }
  [[nodiscard]] PreparedPtr fc2() const {
    return prepare(Place::kFc2, inner_type(), {.type = types_.stream});
  }

 private:
  /// Returns how the activations between the two layers of an MLP are stored, except for their
  /// scale.
  [[nodiscard]] Stored inner_type() const {
    return {.type = types_.inner, .offset = types_.inner == DType::kI8 ? ops::kGeluI8Offset : 0};
  }
  /// Whether the backend's linear layers can include the norm of their input.
  [[nodiscard]] bool folds_norm(std::int64_t out, ops::Epilogue epilogue, DType output) const {
    return bool(backend_.can_run(ops::LinearProblem{.rows = tower_.tokens,
                                                    .in = tower_.hidden,
                                                    .out = out,
                                                    .epilogue = epilogue,
                                                    .input = types_.stream,
                                                    .output = output,
                                                    .norm = true,
                                                    .eps = tower_.layer_norm_eps}));
  }
  [[nodiscard]] LayerParameters load(Part part) const {
    return load_parameters(checkpoint_, part, index_);
  }

  /// Prepares the linear layer at `place`. `norm` is the layer norm before it, if any.
  [[nodiscard]] PreparedPtr prepare(Place place, Stored input, const Stored& output,
                                    std::optional<Part> norm = {}) const {
    const LayerParameters parameters = load_layer(checkpoint_, place, index_);
    LinearWeights weights = linear_weights(parameters);
    weights.input = input;
    weights.output = output;
    LayerParameters folded;
    if (norms_folded_ && norm) {
      folded = load(*norm);
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
    if (layer.input_scale > 0) {  // 0: each row has its own scale
      weights.input.scale = layer.input_scale;
    }
    return backend_.prepare(weights);
  }

  const Checkpoint& checkpoint_;
  TowerSpec tower_;
  ops::Backend& backend_;
  std::int64_t index_;
  const Calibration* calibration_;
  ops::TensorTypes types_;
  bool norms_folded_ = false;
};

}  // namespace

LayerParameters load_parameters(const Checkpoint& checkpoint, Part part, std::int64_t layer) {
  const TowerSpec tower = checkpoint.tower();
  return {checkpoint.load(tower.weight_name(part, layer)),
          checkpoint.load(tower.bias_name(part, layer))};
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

LayerParameters load_layer(const Checkpoint& checkpoint, Place place, std::int64_t index) {
  if (place != Place::kQkv) {
    return load_parameters(checkpoint, place == Place::kFc1 ? Part::kFc1 : Part::kFc2, index);
  }
  LayerParameters all;
  std::size_t part = 0;
  for (const Part projection : {Part::kQuery, Part::kKey, Part::kValue}) {
    const LayerParameters source = load_parameters(checkpoint, projection, index);
    if (part == 0) {
      all.weight = AlignedBuffer<float>(3 * source.weight.size());
      all.bias = AlignedBuffer<float>(3 * source.bias.size());
    }
    std::ranges::copy(source.weight.span(), all.weight.data() + part * source.weight.size());
    std::ranges::copy(source.bias.span(), all.bias.data() + part * source.bias.size());
    ++part;
  }
  return all;
}

TowerWeights::TowerWeights(const Checkpoint& checkpoint, ops::Backend& backend,
                           std::vector<std::function<void()>> other_tasks)
    : layers_(count(checkpoint.tower().layers)) {
  const TowerSpec tower = checkpoint.tower();
  const ops::TensorTypes types = backend.types();
  require_support(backend, ops::LinearProblem{.place = Place::kFc1,
                                              .rows = tower.tokens,
                                              .in = tower.hidden,
                                              .out = tower.mlp,
                                              .epilogue = tower.activation,
                                              .input = types.normed,
                                              .output = types.inner,
                                              .row_scales = types.row_scales});
  std::optional<Calibration> calibration;
  if (info_of(backend.precision()).calibrated) {
    calibration.emplace(checkpoint, backend.precision());
    bf16_layers_ = calibration->bf16_layers();
    const std::filesystem::path& used = calibration->path();
    if (used != checkpoint.folder() / used.filename()) {
      calibration_ = used;
    }
  }
  std::vector<std::function<void()>>& tasks = other_tasks;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const LayerPreparer preparer(checkpoint, backend, index,
                                 calibration && index >= bf16_layers_ ? &*calibration : nullptr);
    LayerWeights& layer = layers_[i];
    layer.types = preparer.types();
    tasks.emplace_back([&layer, preparer] { layer.norm1 = preparer.norm(Part::kNorm1); });
    tasks.emplace_back([&layer, preparer] { layer.norm2 = preparer.norm(Part::kNorm2); });
    tasks.emplace_back([&layer, preparer] { layer.qkv = preparer.qkv(); });
    tasks.emplace_back([&layer, preparer] { layer.out = preparer.out(); });
    tasks.emplace_back([&layer, preparer] { layer.fc1 = preparer.fc1(); });
    tasks.emplace_back([&layer, preparer] { layer.fc2 = preparer.fc2(); });
  }
  backend.for_each(tasks.size(), [&](std::size_t index) { tasks[index](); });
}

std::string TowerWeights::calibration_words(const ops::Backend& backend) const {
  std::string words;
  if (bf16_layers_ > 0) {
    words = fmt::format("the first {} of {} layers are in {}", bf16_layers_, layers_.size(),
                        backend.types().qkv == DType::kF32 ? "fp32" : "bf16");
  }
  if (!calibration_.empty()) {
    words += fmt::format("{}calibrated by {}", words.empty() ? "" : "; ",
                         io::escape(calibration_.native()));
  }
  return words;
}

}  // namespace fovea::model
