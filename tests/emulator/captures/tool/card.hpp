// Runs micro-kernels on a card.
#pragma once

#include <filesystem>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"
#include "gpu/device/device.hpp"

namespace captures {

/// The outputs of one kernel. Of its PTX, which the driver compiles, or with `cubins` of
/// cubins/NAME.cubin. Throws fovea::Error with what the driver says.
std::vector<Bytes> run_on_card(fovea::gpu::Device& device, const MicroKernel& kernel,
                               const std::filesystem::path& cubins);

/// NAME of files.
std::string file_name(const MicroKernel& kernel);

}  // namespace captures
