// A CUDA device that says something else of itself than the driver does.
#pragma once

#include <functional>
#include <memory>

#include "gpu/device/device.hpp"

namespace fovea::gpu {

/// Opens a CUDA device as open_cuda_device does. `change`, where there is one, changes what its
/// info() says: with fewer SMs than there are, plans and grids are those of a smaller GPU.
[[nodiscard]] std::unique_ptr<Device> open_changed_cuda_device(
    int index, const std::function<void(DeviceInfo&)>& change);

}  // namespace fovea::gpu
