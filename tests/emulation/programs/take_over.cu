// A grid whose blocks cancel others that have not started, and do their work: cluster launch
// control (sm_100), as CUDA's guide has it.
#include <cstdint>
#include <cstdio>

#include <cuda/ptx>
#include <cuda_runtime.h>

namespace ptx = cuda::ptx;

constexpr int kBlocks = 40;
constexpr int kThreads = 64;

__global__ void scale(float* numbers, int* started) {
  __shared__ uint4 answer;
  __shared__ std::uint64_t answered;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&answered, 1);
    atomicAdd(started, 1);
  }
  int block = blockIdx.x;
  for (unsigned phase = 0;; phase ^= 1) {
#ifdef FORGOTTEN
    if (phase == 0) __syncthreads();  // a warp may ask again while another one reads the answer
#else
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
      ptx::fence_proxy_async_generic_sync_restrict(ptx::sem_acquire, ptx::space_cluster,
                                                   ptx::scope_cluster);
      ptx::clusterlaunchcontrol_try_cancel(&answer, &answered);
      ptx::mbarrier_arrive_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &answered,
                                     sizeof answer);
    }
    numbers[block * kThreads + threadIdx.x] *= 2;
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &answered, phase)) {
    }
    const uint4 value = answer;
    if (!ptx::clusterlaunchcontrol_query_cancel_is_canceled(value)) {
      return;
    }
    block = ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<int>(value);
    ptx::fence_proxy_async_generic_sync_restrict(ptx::sem_release, ptx::space_shared,
                                                 ptx::scope_cluster);
  }
}

int main() {
  float* numbers;
  int* started;
  cudaMallocManaged(&numbers, kBlocks * kThreads * sizeof(float));
  cudaMallocManaged(&started, sizeof(int));
  for (int i = 0; i < kBlocks * kThreads; ++i) {
    numbers[i] = static_cast<float>(i);
  }
  *started = 0;
  scale<<<kBlocks, kThreads>>>(numbers, started);
  std::puts(cudaGetErrorName(cudaDeviceSynchronize()));
  int wrong = 0;
  for (int i = 0; i < kBlocks * kThreads; ++i) {
    wrong += numbers[i] == static_cast<float>(2 * i) ? 0 : 1;
  }
  std::printf("%d wrong\n", wrong);
  std::puts(*started < kBlocks ? "some were taken over" : "none was taken over");
}
