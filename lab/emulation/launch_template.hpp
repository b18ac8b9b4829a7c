// Launch file for a kernel, as far as its PTX tells what belongs into it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "fovea_emulator/device.hpp"

namespace fovea::emulation {

/// Returns a launch file with a buffer for each parameter that has the type of an address, zeros
/// for the others, and the sizes that the kernel requires.
[[nodiscard]] nlohmann::ordered_json template_of(const emu::KernelHandle& kernel);

}  // namespace fovea::emulation
