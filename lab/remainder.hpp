// Launches of the laboratory's element-wise kernels, which finish what a library leaves undone.
#pragma once

#include <cstdint>

#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"

namespace fovea::lab {

/// output = y + addend, bf16; the addend of `period` elements repeats. Counts are multiples of 8.
[[nodiscard]] gpu::Launch add_launch(const gpu::DeviceInfo& device, gpu::DevicePtr y,
                                     gpu::DevicePtr addend, gpu::DevicePtr output,
                                     std::int64_t count, std::int64_t period);
/// output = gelu(y) / scale, bf16 to e4m3.
[[nodiscard]] gpu::Launch gelu_e4m3_launch(const gpu::DeviceInfo& device, gpu::DevicePtr y,
                                           gpu::DevicePtr output, std::int64_t count, float scale);

}  // namespace fovea::lab
