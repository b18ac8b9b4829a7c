// The tensor map that TMA uses; shared by host and device.
#pragma once

#include <cstdint>

namespace fovea {

/// An opaque object that the driver encodes and kernels receive as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

}  // namespace fovea
