// y = softmax of each row of x in f32: a block per row, reduced by shuffles and in shared memory.
#include <cmath>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Returns the result of `combine` over a value of each thread, to all threads of the block.
template <typename Combine>
__device__ float over_block(float value, float (&parts)[kWarps], Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  if (threadIdx.x % 32 == 0) {
    parts[threadIdx.x / 32] = value;
  }
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < kWarps; ++warp) {
    value = combine(value, parts[warp]);
  }
  return value;
}

}  // namespace

__global__ void __launch_bounds__(kThreads) softmax(const float* x, float* y, int n) {
  __shared__ float largest_parts[kWarps];
  __shared__ float sum_parts[kWarps];
  const float* const row = x + static_cast<size_t>(blockIdx.x) * n;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    largest = fmaxf(largest, row[i]);
  }
  largest = over_block(largest, largest_parts, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    sum += expf(row[i] - largest);
  }
  sum = over_block(sum, sum_parts, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < n; i += kThreads) {
    y[static_cast<size_t>(blockIdx.x) * n + i] = expf(row[i] - largest) / sum;
  }
}
