// kernels/ptx/mbarrier.cuh on the host.
#pragma once

#include "machine/machine.hpp"

namespace fovea::ptx {

inline std::uint32_t shared_address(const void* pointer) {
  return machine::address_of(pointer);
}

}  // namespace fovea::ptx
