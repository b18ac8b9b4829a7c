// Fences between threads, and between ordinary accesses and the asynchronous proxy (PTX
// ISA 9.7.13.4).
#pragma once

namespace fovea::ptx {

/// What this thread wrote to shared memory is visible to the copy engine and the tensor cores.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The same for shared and global memory.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

/// Initialised mbarriers are visible to the cluster and to the copy engine.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void fence_acq_rel_gpu() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

}  // namespace fovea::ptx
