// y = gelu(x w^T + bias) in bf16: a tile of y per block, whose operands come through a ring of
// stages in shared memory. m and n are multiples of 64, k is one of 32.
#include <cstdint>

#include <cuda_bf16.h>

#ifndef STAGES
#define STAGES 3
#endif

namespace {

constexpr int kTile = 64;           // rows and columns of y
constexpr int kDepth = 32;          // of x and w in a stage
constexpr int kPitch = kDepth + 8;  // so that ldmatrix has no bank conflicts
constexpr int kThreads = 128;

struct Stage {
  __nv_bfloat16 x[kTile][kPitch];
  __nv_bfloat16 w[kTile][kPitch];
};

__device__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void copy_16_bytes(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

__device__ void load_4_matrices(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ void multiply(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float gelu(float x) {
  return 0.5F * x * (1.0F + erff(x * 0.70710678F));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    gemm_gelu(const __nv_bfloat16* x, const __nv_bfloat16* w, const float* bias, __nv_bfloat16* y,
              int n, int k) {
  extern __shared__ __align__(16) unsigned char memory[];
  Stage* const ring = reinterpret_cast<Stage*>(memory);
  const int lane = threadIdx.x % 32;
  const int row = threadIdx.x / 64 * 32;  // of the warp's quarter of the tile
  const int column = threadIdx.x / 32 % 2 * 32;
  const __nv_bfloat16* const x_tile = x + static_cast<std::size_t>(blockIdx.y) * kTile * k;
  const __nv_bfloat16* const w_tile = w + static_cast<std::size_t>(blockIdx.x) * kTile * k;

  const auto load = [&](int block) {
    Stage& stage = ring[block % STAGES];
    for (int i = threadIdx.x; i < kTile * 4; i += kThreads) {
      const int line = i / 4;
      const int part = i % 4 * 8;
      const std::size_t from = static_cast<std::size_t>(line) * k + block * kDepth + part;
      copy_16_bytes(&stage.x[line][part], x_tile + from);
      copy_16_bytes(&stage.w[line][part], w_tile + from);
    }
  };
  const int blocks = k / kDepth;
  for (int block = 0; block < STAGES - 1; ++block) {
    if (block < blocks) {
      load(block);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  float sums[2][4][4] = {};
  for (int block = 0; block < blocks; ++block) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();  // the stage is filled, and the one before it is read
    if (block + STAGES - 1 < blocks) {
      load(block + STAGES - 1);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const Stage& stage = ring[block % STAGES];
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += 16) {
      std::uint32_t a[2][4];
      std::uint32_t b[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_4_matrices(a[half], &stage.x[row + half * 16 + lane % 16][depth + lane / 16 * 8]);
        load_4_matrices(
            b[half],
            &stage.w[column + half * 16 + lane / 16 * 8 + lane % 8][depth + lane / 8 % 2 * 8]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int to_column = blockIdx.x * kTile + column + j * 8 + lane % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::size_t to_row = blockIdx.y * kTile + row + i * 16 + half * 8 + lane / 4;
        *reinterpret_cast<__nv_bfloat162*>(y + to_row * n + to_column) =
            __floats2bfloat162_rn(gelu(sums[i][j][half * 2] + bias[to_column]),
                                  gelu(sums[i][j][half * 2 + 1] + bias[to_column + 1]));
      }
    }
  }
}
