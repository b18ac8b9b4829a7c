// ReferenceBackend: runs the whole network in float64, slowly, to compare backends with.
#pragma once

#include <memory>

#include "ops/backend.hpp"

namespace fovea::ops::reference {

/// Activations and the residual stream are float64; one thread, one image a slice.
[[nodiscard]] std::unique_ptr<Backend> make_backend();

}  // namespace fovea::ops::reference
