// kernels/ptx/warp.cuh on the host.
#pragma once

#include "machine/machine.hpp"

namespace fovea::ptx {

inline std::uint32_t read_tid_x() {
  return threadIdx.x;
}
inline std::uint32_t read_ctaid_x() {
  return blockIdx.x;
}
inline void bar_sync(std::uint32_t id, std::uint32_t threads) {
  machine::meet(id, threads);
}
inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}

}  // namespace fovea::ptx
