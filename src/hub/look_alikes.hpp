// Suggestions for mistyped model names.
#pragma once

#include <string>

namespace fovea::hub {

/// Returns "; did you mean models/tiny?" when model folders, or models in the local cache, have
/// names similar to `name`; else "".
[[nodiscard]] std::string look_alikes(const std::string& name);

}  // namespace fovea::hub
