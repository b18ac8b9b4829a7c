// Fences between threads, between ordinary accesses and the asynchronous proxy (PTX ISA 9.7.13.4),
// and for the compiler.
#pragma once

namespace fovea::ptx {

/// What this thread wrote to shared memory is visible to TMA and the tensor cores.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Initialised mbarriers are visible to the cluster and to TMA.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Orders nothing but the compiler's work: no access to memory is moved across it.
__device__ __forceinline__ void compiler_fence() {
  asm volatile("" ::: "memory");
}

}  // namespace fovea::ptx
