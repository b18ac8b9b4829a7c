// Control of warps and grids: register reallocation, named barriers, election, dependent launch.
#pragma once

#include <cstdint>

namespace fovea::ptx {

/// Takes registers so that each thread of the warpgroup has `kCount` (a multiple of 8).
template <int kCount>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Gives registers back so that each thread of the warpgroup keeps `kCount`.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// threadIdx.x, read anew: nothing that is computed from it stays in registers between two calls.
__device__ __forceinline__ std::uint32_t read_tid_x() {
  std::uint32_t x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

/// The same of blockIdx.x.
__device__ __forceinline__ std::uint32_t read_ctaid_x() {
  std::uint32_t x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
}

/// Waits until `threads` threads have come to (or arrived at) barrier `id`, 1 to 15.
__device__ __forceinline__ void bar_sync(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Counts towards barrier `id` without waiting.
__device__ __forceinline__ void bar_arrive(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Brings the line of global memory to L2.
__device__ __forceinline__ void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

/// True in one thread of the converged warp.
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

/// Waits for the grids that this one depends on to end; what they wrote is visible after it.
__device__ __forceinline__ void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// The dependent grid may start once every block has said this or ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace fovea::ptx
