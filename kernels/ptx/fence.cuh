// Fences between threads, between ordinary accesses and the asynchronous proxy (PTX ISA 9.7.13.4),
// and for the compiler.
#pragma once

namespace fovea::ptx {

/// Makes this thread's writes to shared memory visible to TMA and the tensor cores.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Makes initialised mbarriers visible to the cluster and to TMA.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// A fence for the compiler only: it moves no memory access across it.
__device__ __forceinline__ void compiler_fence() {
  asm volatile("" ::: "memory");
}

}  // namespace fovea::ptx
