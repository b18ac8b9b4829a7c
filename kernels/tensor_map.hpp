// The hardware's tensor map; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea {

/// What the driver encodes, and kernels take in their __grid_constant__ parameter.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

}  // namespace fovea
