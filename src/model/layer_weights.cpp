// Loads the weights of a tower's layers from the checkpoint, and from the calibration in 8 bits.
#include "model/layer_weights.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "io/text.hpp"
#include "model/architecture.hpp"

namespace fovea::model {
namespace {

using ops::LayerNormWeights;
using ops::LinearWeights;
using ops::PreparedPtr;
using ops::Stored;

constexpr std::string_view kNorm1 = "layer_norm1";
constexpr std::string_view kNorm2 = "layer_norm2";

/// Prepares one layer of a tower for the types of its tensors.
class LayerPreparer {
 public:
  /// `calibration`: null when the precision has none, or leaves this layer out.
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
                    folds_norm(tower_.mlp, ops::Epilogue::kGeluTanh, types_.inner);
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
    return bool(backend_.can_run(ops::LinearProblem{.rows = tower_.tokens,
                                                    .in = tower_.hidden,
                                                    .out = out,
                                                    .epilogue = epilogue,
                                                    .input = types_.stream,
                                                    .output = output,
                                                    .norm = true,
                                                    .eps = tower_.layer_norm_eps}));
  }
  [[nodiscard]] LayerParameters load(std::string_view name) const {
    return load_parameters(checkpoint_, layer_prefix(tower_, index_) + std::string(name));
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
  TowerConfig tower_;
  ops::Backend& backend_;
  std::int64_t index_;
  const Calibration* calibration_;
  ops::TensorTypes types_;
  bool norms_folded_ = false;
};

}  // namespace

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

LayerParameters load_layer(const Checkpoint& checkpoint, std::string_view place,
                           std::int64_t index) {
  const std::string layer = layer_prefix(checkpoint.tower(), index);
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

TowerWeights::TowerWeights(const Checkpoint& checkpoint, ops::Backend& backend,
                           std::vector<std::function<void()>> others)
    : layers_(count(checkpoint.tower().layers)) {
  std::optional<Calibration> calibration;
  if (info_of(backend.precision()).calibrated) {
    calibration.emplace(checkpoint, backend.precision());
    bf16_layers_ = calibration->bf16_layers();
    const std::filesystem::path& used = calibration->path();
    if (used != checkpoint.folder() / used.filename()) {
      calibration_ = used;
    }
  }
  std::vector<std::function<void()>>& tasks = others;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const LayerPreparer preparer(checkpoint, backend, index,
                                 calibration && index >= bf16_layers_ ? &*calibration : nullptr);
    LayerWeights& layer = layers_[i];
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
