// The launch of the laboratory's element-wise kernel, which finishes what a library leaves undone.
#pragma once

#include <cstdint>

#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"

namespace fovea::lab {

/// output = y + addend, bf16; the addend of `period` elements repeats. Counts are multiples of 8.
[[nodiscard]] gpu::Launch add_launch(const gpu::DeviceInfo& device, gpu::DevicePtr y,
                                     gpu::DevicePtr addend, gpu::DevicePtr output,
                                     std::int64_t count, std::int64_t period);

}  // namespace fovea::lab
