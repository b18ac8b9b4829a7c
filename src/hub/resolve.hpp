// Resolves model names, given as `-m MODEL`, to folders.
#pragma once

#include <filesystem>
#include <string>

namespace fovea::hub {

/// Returns the folder of a model. `name_or_folder` is an existing folder, or a model.safetensors,
/// model.safetensors.index.json or config.json in one. Otherwise it is a hub id
/// "org/name", looked up at `revision` (branch, tag or commit) in the local Hugging Face cache;
/// never on the network. Throws fovea::Error saying where it looked and how to get the model.
[[nodiscard]] std::filesystem::path resolve_model(const std::string& name_or_folder,
                                                  const std::string& revision = "main");

}  // namespace fovea::hub
