// Arguments of kernels as launch.json has them.
#pragma once

#include <vector>

#include "lab/emulation/field.hpp"
#include "lab/emulation/launch_file.hpp"

namespace fovea::emulation {

/// `buffers`: that it may name. Throws fovea::Error with the field's path.
[[nodiscard]] Argument read_argument(const Field& field, const std::vector<Buffer>& buffers);

}  // namespace fovea::emulation
