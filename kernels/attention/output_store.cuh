// Stores the output of attention from accumulators: each warp stages its 16 rows of a tile of 64 in
// shared memory, and TMA stores them. Rows beyond the tensor are not stored.
//
// Each warp writes only the bytes of its own rows, which have the same place in a tile of queries:
// so a warp may stage its output over the queries that it has read, without waiting for other
// warps.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/attention/head_tile.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/matrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/tma.cuh"

namespace fovea::attention {

/// The swizzled address of a byte in rows of `kRowBytes`; the pattern begins at multiples of 1024.
template <int kRowBytes>
__device__ __forceinline__ std::uint32_t swizzled(std::uint32_t address) {
  constexpr std::uint32_t kMask = kRowBytes - 16;  // 0x70, 0x30 or 0x10
  return address ^ (address >> 3 & kMask);
}

/// Stages 16 rows of `kRegisters / 4` groups of eight columns, converted to 16-bit elements.
template <typename Element, int kRowBytes, int kRegisters>
__device__ __forceinline__ void stage_halves(const float (&o)[kRegisters], std::uint32_t to,
                                             int lane) {
  const std::uint32_t row = to + lane % 16 * kRowBytes + lane / 16 * 16;
#pragma unroll
  for (int i = 0; i < kRegisters / 8; ++i) {
    const float* const x = &o[i * 8];
    ptx::stmatrix_x4(swizzled<kRowBytes>(row + i * 32), Element::pack(x[0], x[1]),
                     Element::pack(x[2], x[3]), Element::pack(x[4], x[5]),
                     Element::pack(x[6], x[7]));
  }
}

/// Stores a warp's rows of `o` through its part of `staging`, to the head's rows from `row` on.
/// Lane 0 owns the bulk group.
template <typename Element, int kHeadDim>
__device__ __forceinline__ void store_output(const Sm90Params& params,
                                             const OutputTile<kHeadDim>& o,
                                             HeadTile<kHeadDim, kTileRows>& staging, int warp,
                                             int lane, int row, int head, int image) {
  using Tile = HeadTile<kHeadDim, kTileRows>;  // region: output store
  unsigned char* const wide = staging.bytes + warp * (kOutputRows * 128);
  unsigned char* const rest =
      staging.bytes + Tile::kRestOffset + warp * (kOutputRows * Tile::kRestBytes);

#pragma unroll
  for (int span = 0; span < Tile::kWide; ++span) {
    const float(&x)[32] = *reinterpret_cast<const float(*)[32]>(&o.wide[span * 32]);
    const std::uint32_t to = ptx::shared_address(wide + span * Tile::kSpanBytes);
    stage_halves<Element, 128>(x, to, lane);
  }
  if constexpr (Tile::kRest != 0) {
    stage_halves<Element, Tile::kRestBytes>(o.rest, ptx::shared_address(rest), lane);
  }

  ptx::fence_proxy_async_shared();
  __syncwarp();
  if (lane == 0) {
#pragma unroll
    for (int span = 0; span < Tile::kWide; ++span) {
      ptx::tma_store_4d(&params.o.wide, wide + span * Tile::kSpanBytes, span * 64, row, head,
                        image);
    }
    if constexpr (Tile::kRest != 0) {
      ptx::tma_store_4d(&params.o.rest, rest, Tile::kWide * 64, row, head, image);
    }
    ptx::bulk_commit_group();
  }  // end region
}

}  // namespace fovea::attention
