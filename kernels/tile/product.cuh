// Matrix products of one warpgroup: (64, kColumns) += A (64, 128 bytes) B (kColumns, 128 bytes)^T.
#pragma once

#include <cstdint>

#include "kernels/ptx/wgmma.cuh"
#include "kernels/tile/descriptor.cuh"
#include "kernels/tile/input.hpp"

namespace fovea::tile {

template <Input kInput, int kColumns>
struct ProductOf;
template <int kColumns>
struct ProductOf<Input::kBF16, kColumns> {
  using Accumulator = float;
  using Mma = ptx::WgmmaBf16<kColumns>;
};
template <int kColumns>
struct ProductOf<Input::kE4M3, kColumns> {
  using Accumulator = float;
  using Mma = ptx::WgmmaE4m3<kColumns>;
};
template <int kColumns>
struct ProductOf<Input::kU8S8, kColumns> {
  using Accumulator = std::int32_t;
  using Mma = ptx::WgmmaU8S8<kColumns>;
};
template <int kColumns>
struct ProductOf<Input::kS8S8, kColumns> {
  using Accumulator = std::int32_t;
  using Mma = ptx::WgmmaS8S8<kColumns>;
};

/// Multiplies two K-major tiles with swizzled rows of 128 bytes, as one committed group.
template <Input kInput, int kColumns>
__device__ __forceinline__ void multiply_block(
    typename ProductOf<kInput, kColumns>::Accumulator (&accumulators)[kColumns / 2],
    std::uint32_t a, std::uint32_t b, bool accumulate) {
  constexpr int kStepBytes = 32;  // bytes along K per instruction
  const std::uint64_t descriptor_a = descriptor_k128(a);
  const std::uint64_t descriptor_b = descriptor_k128(b);
#pragma unroll
  for (int step = 0; step < 128 / kStepBytes; ++step) {
    ProductOf<kInput, kColumns>::Mma::ss(accumulators, advance(descriptor_a, step * kStepBytes),
                                         advance(descriptor_b, step * kStepBytes),
                                         step > 0 || accumulate);
  }
  ptx::wgmma_commit_group();
}

}  // namespace fovea::tile
