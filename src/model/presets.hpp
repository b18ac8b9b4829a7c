// The published SigLIP 2 architectures by name.
#pragma once

#include <span>
#include <string_view>

#include "model/config.hpp"

namespace fovea::model {

struct Preset {
  std::string_view name;  // as on the hub without "google/siglip2-"
  VisionConfig vision;
  TextConfig text;
};

/// "tiny" and "tiny-naflex" first, then the published ones.
[[nodiscard]] std::span<const Preset> presets();

/// Throws fovea::Error listing the names when `name` is unknown.
[[nodiscard]] const Preset& find_preset(std::string_view name);

}  // namespace fovea::model
