// What `fovea --version` prints.
#pragma once

#include <string>

namespace fovea::cli {

/// "fovea 0.1.0" on a line of its own for scripts, then what the program is made of.
[[nodiscard]] std::string version_text();

}  // namespace fovea::cli
