// Models that a mistyped name may have meant.
#pragma once

#include <string>

namespace fovea::hub {

/// "; did you mean models/tiny?" when there are model folders, or models in the local cache, whose
/// names are near to `name`; else "".
[[nodiscard]] std::string look_alikes(const std::string& name);

}  // namespace fovea::hub
