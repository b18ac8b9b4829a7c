// The versions of the libraries that decode.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fovea::image {

/// Names and versions, as they are at run time where a library tells.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace fovea::image
