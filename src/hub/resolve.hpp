// Turns model names into folders, for every `-m MODEL`.
#pragma once

#include <filesystem>
#include <string>

namespace fovea::hub {

/// The folder of a model. An existing folder is taken as it is; so is the folder around a given
/// model.safetensors, model.safetensors.index.json or config.json. Otherwise the name is a hub id
/// "org/name", looked up at `revision` (branch, tag or commit) in the local Hugging Face cache;
/// never on the network. Throws fovea::Error saying where it looked and how to get the model.
[[nodiscard]] std::filesystem::path resolve_model(const std::string& name_or_folder,
                                                  const std::string& revision = "main");

}  // namespace fovea::hub
