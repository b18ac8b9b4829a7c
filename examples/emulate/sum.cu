// Sums of 256 numbers each, with a mistake that docs/emulator.md finds: a barrier is missing.
__global__ void sum(const float* x, float* y) {
  __shared__ float part[256];
  const int i = threadIdx.x;
  part[i] = x[blockIdx.x * 256 + i];
  for (int half = 128; half > 0; half /= 2) {
    if (i < half) {
      part[i] += part[i + half];
    }
    __syncthreads();
  }
  if (i == 0) {
    y[blockIdx.x] = part[0];
  }
}
