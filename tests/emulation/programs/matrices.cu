// Transposition of pitched memory, and a product of matrices through shared memory, more of it than
// is allowed without asking. With -DFORGOTTEN one __syncthreads() is missing.
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

constexpr int kTile = 16;

__global__ void transpose(const float* from, float* to, int rows, int columns) {
  __shared__ float tile[kTile][kTile + 1];
  const int x = blockIdx.x * kTile + threadIdx.x;
  const int y = blockIdx.y * kTile + threadIdx.y;
  if (x < columns && y < rows) {
    tile[threadIdx.y][threadIdx.x] = from[y * columns + x];
  }
  __syncthreads();
  const int tx = blockIdx.y * kTile + threadIdx.x;
  const int ty = blockIdx.x * kTile + threadIdx.y;
  if (tx < rows && ty < columns) {
    to[ty * rows + tx] = tile[threadIdx.x][threadIdx.y];
  }
}

__global__ void multiply(const float* a, const float* b, float* c, int n) {
  extern __shared__ float tiles[];
  float* const a_tile = tiles;
  float* const b_tile = tiles + kTile * kTile;
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    a_tile[threadIdx.y * kTile + threadIdx.x] = a[row * n + k + threadIdx.x];
    b_tile[threadIdx.y * kTile + threadIdx.x] = b[(k + threadIdx.y) * n + column];
#ifndef FORGOTTEN
    __syncthreads();
#endif
    for (int i = 0; i < kTile; ++i) {
      sum += a_tile[threadIdx.y * kTile + i] * b_tile[i * kTile + threadIdx.x];
    }
    __syncthreads();
  }
  c[row * n + column] = sum;
}

bool check(cudaError_t code) {
  if (code != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorName(code));
  }
  return code == cudaSuccess;
}

int main() {
  constexpr int kN = 32;
  constexpr int kRows = 20;
  float* from;
  std::size_t pitch = 0;
  float *packed, *to;
  std::vector<float> host(kRows * kN);
  for (int i = 0; i < kRows * kN; ++i) {
    host[i] = static_cast<float>(i);
  }
  std::vector<float> result(kRows * kN);
  if (!check(cudaMallocPitch(&from, &pitch, kN * 4, kRows)) ||
      !check(
          cudaMemcpy2D(from, pitch, host.data(), kN * 4, kN * 4, kRows, cudaMemcpyHostToDevice)) ||
      !check(cudaMalloc(&packed, kRows * kN * 4)) || !check(cudaMalloc(&to, kRows * kN * 4)) ||
      !check(cudaMemcpy2D(packed, kN * 4, from, pitch, kN * 4, kRows, cudaMemcpyDeviceToDevice))) {
    return 3;
  }
  transpose<<<dim3(2, 2), dim3(kTile, kTile)>>>(packed, to, kRows, kN);
  check(cudaMemcpy(result.data(), to, kRows * kN * 4, cudaMemcpyDeviceToHost));
  bool is_right = true;
  for (int i = 0; i < kRows * kN; ++i) {
    is_right = is_right && result[i] == host[i % kRows * kN + i / kRows];
  }
  std::printf("transpose %s\n", is_right ? "right" : "wrong");

  float *a, *c;
  cudaMallocManaged(&a, kN * kN * 4);
  cudaMallocHost(&c, kN * kN * 4);
  for (int i = 0; i < kN * kN; ++i) {
    a[i] = static_cast<float>(i % 7);
  }
  constexpr int kShared = 64 * 1024;
  multiply<<<dim3(2, 2), dim3(kTile, kTile), kShared>>>(a, a, c, kN);
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  check(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, multiply, kTile * kTile, kShared));
  std::printf("%d\n", blocks);
  multiply<<<dim3(2, 2), dim3(kTile, kTile), kShared>>>(a, a, c, kN);
  check(cudaDeviceSynchronize());
  is_right = true;
  for (int row = 0; row < kN; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kN; ++k) {
        sum += a[row * kN + k] * a[k * kN + column];
      }
      is_right = is_right && c[row * kN + column] == sum;
    }
  }
  std::printf("product %s\n", is_right ? "right" : "wrong");
  return cudaFree(a) != cudaSuccess || cudaFreeHost(c) != cudaSuccess;
}
