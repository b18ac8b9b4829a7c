// The compiled kernels that options of `fovea kernel` name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/device/kernel_image.hpp"

namespace fovea::cli::kernel {

/// The kernels that the named cards cover, or all kernels without names; of them the one that is
/// called `kernel`, unless that is empty, and those for `arch`, unless that is 0. Throws
/// fovea::Error when there are none.
[[nodiscard]] std::vector<gpu::KernelImage> images_of(std::span<const std::string> cards_named,
                                                      const std::string& kernel = {}, int arch = 0);

/// Faults of a kernel, on a line of their own.
[[nodiscard]] std::string over_limits(const std::vector<std::string>& faults);

}  // namespace fovea::cli::kernel
