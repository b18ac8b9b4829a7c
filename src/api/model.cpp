// The public functions on models, implemented with src/model.
#include "fovea/model.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "backends.hpp"
#include "core/error.hpp"
#include "hub/resolve.hpp"
#include "model/architecture.hpp"
#include "model/calibration.hpp"
#include "model/checkpoint.hpp"
#include "model/family.hpp"
#include "model/init.hpp"
#include "text/small_tokenizer.hpp"

namespace fovea {

std::vector<std::string> list_gpus(std::string* why) {
  std::string reason;
  std::vector<std::string> gpus = describe_gpus(reason);
  if (why != nullptr) {
    *why = gpus.empty() ? reason : "";
  }
  return gpus;
}

namespace {

/// Returns the existing calibrations of a model that has all of its tensors.
std::vector<std::filesystem::path> existing_calibrations(const std::filesystem::path& folder,
                                                         const std::filesystem::path& calibration) {
  std::vector<std::filesystem::path> calibrations;
  const auto add_calibrations = [&](model::Tower tower) {
    const model::Checkpoint checkpoint(folder, {}, tower, calibration);
    for (const PrecisionInfo& info : kPrecisions) {
      if (!info.calibrated) {
        continue;
      }
      std::filesystem::path path = model::find_calibration(checkpoint, info.precision);
      if (std::error_code error; std::filesystem::exists(path, error)) {
        calibrations.push_back(std::move(path));
      }
    }
  };
  add_calibrations(model::Tower::kVision);
  try {
    add_calibrations(model::Tower::kText);
  } catch (const Error& error) {  // a model without a text tower
    rethrow_unless_finding(error);
  }
  return calibrations;
}

}  // namespace

ModelInfo inspect_model(const std::string& model, const std::filesystem::path& calibration) {
  ModelInfo info;
  info.folder = hub::resolve_model(model);
  const model::ModelConfig config = model::read_model_config(info.folder);
  const model::VisionConfig& vision = config.vision;
  const model::WeightFiles weights(info.folder, vision);
  info.hidden = vision.hidden;
  info.mlp = vision.mlp;
  info.layers = vision.layers;
  info.heads = vision.heads;
  info.head_dim = vision.head_dim();
  info.image_size = vision.image_size;
  info.patch = vision.patch;
  info.patches = vision.tokens();
  info.layer_norm_eps = vision.layer_norm_eps;
  info.parameters = model::parameter_count(vision);
  info.gflop_per_image = model::flop_per_image(vision) * 1e-9;
  std::set<std::string> dtypes;
  for (const auto& [name, tensor] : weights.tensors()) {
    dtypes.emplace(tensor.stored->dtype);
  }
  info.dtypes.assign(dtypes.begin(), dtypes.end());
  for (const model::SafetensorsFile& file : weights.files()) {
    info.files.push_back(file.file().path());
    info.weight_bytes += file.file().size();
  }
  info.missing = weights.missing();
  info.unusable = weights.unusable();
  info.unused = weights.unused();
  info.preprocessing = config.preprocessing;
  if (info.usable()) {
    info.calibrations = existing_calibrations(info.folder, calibration);
  }
  return info;
}

std::span<const std::string_view> preset_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const model::Preset& preset : model::presets()) {
      list.push_back(preset.name);
    }
    return list;
  }();
  return names;
}

void init_checkpoint(const InitOptions& options) {
  std::optional<model::NewTokenizer> tokenizer;
  if (options.texts) {
    if (options.vocabulary != 0 && options.vocabulary < text::kSmallVocabulary) {
      fail("invalid vocabulary of {} tokens; the tokenizer that is written has {}",
           options.vocabulary, text::kSmallVocabulary);
    }
    tokenizer = {
        .vocabulary = std::max(options.vocabulary, text::kSmallVocabulary),
        .files = text::kTokenizerFiles,
        .write = [](const std::filesystem::path& folder) { text::write_small_tokenizer(folder); }};
  }
  model::write_checkpoint(options, tokenizer);
}

}  // namespace fovea
