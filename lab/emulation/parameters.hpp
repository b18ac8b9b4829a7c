// A kernel's parameters as bytes, from the arguments of a launch file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "lab/emulation/launch_file.hpp"

namespace fovea::emulation {

/// What arguments mean on a device.
struct ArgumentMeaning {
  std::function<std::uint64_t(const BufferAddress&)> address_of;
  /// Encodes a tensor map. Throws fovea::Error for one that the device does not have.
  std::function<std::vector<std::byte>(const TensorMapArgument&)> encode_map;
};

/// Returns the parameters in the layout of the kernel's parameter space. Throws fovea::Error, which
/// names the argument, if the arguments are not those that the kernel has.
[[nodiscard]] std::vector<std::byte> encode_parameters(const LaunchText& launch,
                                                       const emu::KernelHandle& kernel,
                                                       const ArgumentMeaning& meaning);

}  // namespace fovea::emulation
