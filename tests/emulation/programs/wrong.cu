// What programs do wrong, and what they print: one case a number.
#include <cassert>
#include <clocale>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

__global__ void fill(int* to, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) {
    to[i] = i;
  }
}

// Threads of two warps take turns by shared memory, but wait for each other in one order only.
__global__ void last_wins(int* to) {
  __shared__ int last;
  if (threadIdx.x % 32 == 0) {
    last = static_cast<int>(threadIdx.x);
  }
  __syncthreads();
  to[threadIdx.x] = last;
}

__global__ void speak(int count) {
  std::printf("thread %d\n", static_cast<int>(threadIdx.x));
  assert(static_cast<int>(threadIdx.x) < count);
}

__global__ void tell() {
  std::printf("%.2f\n", threadIdx.x + 0.25);
}

// Launches count clusters of two blocks.
__global__ void __block_size__((256, 1, 1), (2, 1, 1)) pairs(int* to) {
  to[threadIdx.x] = 1;
}

void print(cudaError_t error) {
  std::printf("%s\n", cudaGetErrorName(error));
}

int main(int, char** argv) {
  int* numbers;
  cudaMalloc(&numbers, 256 * sizeof(int));
  switch (std::atoi(argv[1])) {
    case 1:  // one element too many
      fill<<<1, 512>>>(numbers, 256);
      std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
      std::printf("%s\n", cudaGetErrorName(cudaMemset(numbers, 0, 4)));
      break;
    case 2:  // more than there is
      std::printf("%s\n", cudaGetErrorName(cudaMemset(numbers, 0, 1028)));
      break;
    case 3:  // the wrong direction
      int host;
      std::printf("%s\n", cudaGetErrorName(cudaMemcpy(&host, numbers, 4, cudaMemcpyHostToDevice)));
      break;
    case 4:  // freed twice
      cudaFree(numbers);
      std::printf("%s\n", cudaGetErrorName(cudaFree(numbers)));
      break;
    case 5: {  // a function that is not there
      cudaGraph_t graph;
      std::printf("%s\n", cudaGetErrorName(cudaGraphCreate(&graph, 0)));
      break;
    }
    case 6:  // a race; the program goes on
      last_wins<<<1, 64>>>(numbers);
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
      return 7;
    case 7:  // nothing
      return 7;
    case 8:  // several launches, one with a race
      fill<<<1, 256>>>(numbers, 200);
      fill<<<1, 256>>>(numbers, 201);
      last_wins<<<1, 64>>>(numbers);
      fill<<<1, 256>>>(numbers, 202);
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
      break;
    case 9:  // too many threads
      fill<<<1, 2048>>>(numbers, 1);
      std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
      break;
    case 10:  // what kernels print stands between what the program prints
    case 11:  // an assertion that does not hold
      std::printf("before\n");
      speak<<<1, 2>>>(argv[1][1] == '0' ? 2 : 1);
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
      break;
    case 12:  // a locale with a decimal comma
      if (std::setlocale(LC_ALL, "") == nullptr) {
        return 9;
      }
      std::printf("%.2f\n", 0.5);
      tell<<<1, 1>>>();
      print(cudaDeviceSynchronize());
      break;
    case 13: {  // memory that is registered twice, or is none
      char* const bytes = new char[8192]();
      print(cudaHostRegister(bytes, 4096, 0));
      print(cudaHostRegister(bytes + 4095, 100, 0));
      print(cudaHostRegister(bytes + 4096, 100, 0));
      print(cudaHostUnregister(bytes));
      print(cudaHostUnregister(bytes));
      print(cudaHostRegister(bytes + 100, 8, 0));
      print(cudaHostRegister(bytes, 0, 0));
      print(cudaHostRegister(reinterpret_cast<void*>(0x7000'0000'0000), 4096, 0));
      break;
    }
    case 14:  // as many blocks as fit at a time, and two more
      for (const unsigned clusters : {32U, 33U}) {
        void* arguments[] = {&numbers};
        print(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(pairs), dim3(clusters), dim3(256),
                                          arguments, 0, nullptr));
      }
      break;
    default:
      std::abort();
  }
  return 0;
}
