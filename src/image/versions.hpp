// The versions of the libraries that decode.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fovea::image {

/// Returns the names and versions of the libraries: the versions at run time, if a library reports
/// it.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace fovea::image
