// Dynamic shared memory, whose size is set at launch.
#pragma once

#include <cstdint>

namespace fovea::row_search {

__device__ __forceinline__ std::uint8_t* dynamic_memory() {
  extern __shared__ __align__(16) std::uint8_t memory[];
  return memory;
}

}  // namespace fovea::row_search
