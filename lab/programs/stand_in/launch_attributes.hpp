// Attributes of launches, which the runtime and the driver share.
#pragma once

#include <span>

#include "gpu/device/driver_api.hpp"
#include "lab/programs/stand_in/gpu.hpp"

namespace fovea::programs {

/// Takes the attributes over into the request. Throws CallError for one that the emulator cannot
/// obey.
void apply_attributes(LaunchRequest& request,
                      std::span<const gpu::driver::LaunchAttribute> attributes);

}  // namespace fovea::programs
