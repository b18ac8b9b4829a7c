// Family: everything specific to one kind of models. The rest of src/model runs their networks from
// this description. Families are defined in families/.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fovea/preprocessing.hpp"
#include "model/config.hpp"
#include "model/json_fields.hpp"
#include "model/tower_spec.hpp"

namespace fovea::model {

/// A published architecture of a family, by name.
struct Preset {
  std::string_view name;  // for SigLIP 2: the name on the hub, without "google/siglip2-"
  VisionConfig vision;
  TextConfig text;
};

struct Family {
  std::string_view description;  // "SigLIP and SigLIP 2 (model_type \"siglip\")"
  TensorNames vision_names{};
  TensorNames text_names{};  // empty when there is no text tower

  /// Parse the vision or text tower in config.json; return nothing when its model_type belongs to
  /// another family. They throw fovea::Error when something is not supported.
  std::optional<VisionConfig> (*vision)(const Fields& config) = nullptr;
  std::optional<TextConfig> (*text)(const Fields& config) = nullptr;  // null without text towers
  /// Parses preprocessor_config.json.
  Preprocessing (*preprocessing)(const Fields& fields) = nullptr;

  /// Architectures and config files for `fovea init`. Null when the family has no presets.
  std::span<const Preset> presets{};
  nlohmann::ordered_json (*config_json)(const VisionConfig& vision,
                                        const TextConfig& text) = nullptr;
  nlohmann::ordered_json (*preprocessor_json)(const VisionConfig& vision) = nullptr;
};

/// The presets of all families; those of SigLIP begin with "tiny" and "tiny-naflex", followed by
/// the published ones.
[[nodiscard]] std::span<const Preset> presets();

/// Returns the preset of this name. Throws fovea::Error with all names if it is unknown.
[[nodiscard]] const Preset& find_preset(std::string_view name);

}  // namespace fovea::model
