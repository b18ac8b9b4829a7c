// Family: all that is particular to models of one kind, whose networks the rest of the model
// interprets. Each is a file of families/.
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
  std::string_view name;  // of SigLIP 2: as on the hub without "google/siglip2-"
  VisionConfig vision;
  TextConfig text;
};

struct Family {
  std::string_view description;  // "SigLIP and SigLIP 2 (model_type \"siglip\")"
  TensorNames vision_names{};
  TensorNames text_names{};  // without parts when there is no text tower

  /// The tower of images or texts that config.json describes; none when its model_type is another
  /// family's. Throw fovea::Error when something in it is not supported.
  std::optional<VisionConfig> (*vision)(const Fields& config) = nullptr;
  std::optional<TextConfig> (*text)(const Fields& config) = nullptr;  // null without text towers
  /// preprocessor_config.json.
  Preprocessing (*preprocessing)(const Fields& fields) = nullptr;

  /// What `fovea init` makes: architectures, and their files. Null when there are none.
  std::span<const Preset> presets{};
  nlohmann::ordered_json (*config_json)(const VisionConfig& vision,
                                        const TextConfig& text) = nullptr;
  nlohmann::ordered_json (*preprocessor_json)(const VisionConfig& vision) = nullptr;
};

/// The presets of all families: of SigLIP "tiny" and "tiny-naflex" first, then the published ones.
[[nodiscard]] std::span<const Preset> presets();

/// Throws fovea::Error listing the names when `name` is unknown.
[[nodiscard]] const Preset& find_preset(std::string_view name);

}  // namespace fovea::model
