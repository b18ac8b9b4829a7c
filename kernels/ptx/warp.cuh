// Control of warps and grids: register reallocation, named barriers, election, dependent launch.
#pragma once

#include <cstdint>

namespace fovea::ptx {

/// Increases the registers of each thread of the warpgroup to `kCount`, a multiple of 8.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Decreases the registers of each thread of the warpgroup to `kCount`, a multiple of 8.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Reads threadIdx.x again, so that the compiler keeps no value computed from it in registers
/// between two calls.
__device__ __forceinline__ std::uint32_t read_tid_x() {
  std::uint32_t x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

/// The same for blockIdx.x.
__device__ __forceinline__ std::uint32_t read_ctaid_x() {
  std::uint32_t x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
}

/// Waits until `threads` threads have arrived at barrier `id` (1 to 15), by this function or
/// bar_arrive().
__device__ __forceinline__ void bar_sync(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives at barrier `id` without waiting: `threads` counts this thread, as it counts those in
/// bar_sync().
__device__ __forceinline__ void bar_arrive(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Prefetches the cache line of a global address to L2.
__device__ __forceinline__ void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

/// Returns true in one thread of the converged warp.
__device__ __forceinline__ bool elect_sync() {
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

/// Waits until the grids that this one depends on have ended, whose writes are then visible.
__device__ __forceinline__ void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// Lets the dependent grid start once every block has called this or has ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace fovea::ptx
