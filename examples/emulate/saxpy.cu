// y = a x + y, for `fovea emulate`: nvcc -ptx -arch=sm_90 saxpy.cu
__global__ void saxpy(int count, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    y[i] += a * x[i];
  }
}
