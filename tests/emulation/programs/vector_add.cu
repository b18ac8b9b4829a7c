// Vector addition as a beginner's program has it: a template kernel, a __constant__ factor, events,
// device properties. Prints the sum, or the error.
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

__constant__ float factor;
__device__ int launches;

template <typename T>
__global__ void add(const T* a, const T* b, T* c, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    c[i] = factor * (a[i] + b[i]);
  }
  if (i == 0) {
    launches = launches + 1;
  }
}

int main() {
  constexpr int kCount = 1000;
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  int shared = 0;
  cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  std::printf("%d.%d %d %d %zu %zu\n", properties.major, properties.minor, properties.warpSize,
              properties.multiProcessorCount, properties.sharedMemPerBlockOptin,
              static_cast<std::size_t>(shared));
  std::vector<float> a(kCount);
  std::vector<float> b(kCount);
  std::vector<float> c(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  float *da, *db, *dc;
  cudaMalloc(&da, kCount * sizeof(float));
  cudaMalloc(&db, kCount * sizeof(float));
  cudaMallocAsync(&dc, kCount * sizeof(float), nullptr);
  const float two = 2;
  cudaMemcpyToSymbol(factor, &two, sizeof(two));
  cudaEvent_t start, end;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMemcpyAsync(da, a.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(db, b.data(), kCount * sizeof(float), cudaMemcpyDefault, stream);
  cudaEventRecord(start, stream);
  add<float><<<4, 256, 0, stream>>>(da, db, dc, kCount);
  add<float><<<4, 256, 0, stream>>>(da, db, dc, kCount);
  cudaEventRecord(end, stream);
  cudaMemcpyAsync(c.data(), dc, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  float milliseconds = -1;
  cudaEventElapsedTime(&milliseconds, start, end);
  int count = 0;
  cudaMemcpyFromSymbol(&count, launches, sizeof(count));
  double sum = 0;
  for (const float value : c) {
    sum += value;
  }
  std::printf("%.0f %d %d %s\n", sum, count, milliseconds > 0,
              cudaGetErrorName(cudaGetLastError()));
  cudaFree(da);
  cudaFree(db);
  cudaFreeAsync(dc, nullptr);
  return 0;
}
