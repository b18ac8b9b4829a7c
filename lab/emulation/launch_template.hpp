// Launch file for a kernel, as far as its PTX tells what belongs into it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

/// Returns a launch file with a buffer for each parameter that has the type of an address, of the
/// elements that the kernel's name in C++ says, zeros for the others, and the sizes that the kernel
/// requires. It calls the kernel by its name in C++ where the module has no other of that name.
[[nodiscard]] nlohmann::ordered_json template_of(const Module& module,
                                                 const emu::KernelHandle& kernel);

}  // namespace fovea::emulation
