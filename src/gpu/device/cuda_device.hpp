// Opens a CUDA device with a modified DeviceInfo.
#pragma once

#include <functional>
#include <memory>

#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// Opens a CUDA device as open_cuda_device does. `change`, if set, modifies its info(): with fewer
/// SMs, for example, plans and grids are those of a smaller GPU.
[[nodiscard]] std::unique_ptr<Device> open_changed_cuda_device(
    int index, const std::function<void(DeviceInfo&)>& change);

}  // namespace fovea::gpu
