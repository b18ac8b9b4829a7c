// Tiles of one head in shared memory, and the two matrix products of attention.
//
// A tile is (rows, head_dim), split into spans of columns as TMA loads them: spans of 64 columns
// with 128-byte swizzle and, where 64 does not divide the head dimension, a last span of 16 or 32
// columns whose swizzle is as wide as its rows. Columns beyond the head are zero.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/tile/descriptor.cuh"

namespace fovea::attention {

/// How the columns of a head are split into spans.
template <int kHeadDim>
struct HeadSpans {
  static constexpr int kWide = kHeadDim / 64;           // number of spans of 64 columns
  static constexpr int kRest = rest_columns(kHeadDim);  // columns of the last span
  static constexpr int kRestBytes = kRest * 2;          // bytes per row of the last span
  static constexpr tile::SwizzleMode kRestMode =
      kRestBytes == 32 ? tile::SwizzleMode::k32 : tile::SwizzleMode::k64;
  static_assert(kHeadDim % 8 == 0 && kWide >= 1 && kRest <= 32, "head dims 64, 72, 80, 96, 128");
};

template <int kHeadDim, int kRows>
struct HeadTile : HeadSpans<kHeadDim> {
  using Spans = HeadSpans<kHeadDim>;
  static constexpr int kSpanBytes = kRows * 128;
  static constexpr int kRestOffset = Spans::kWide * kSpanBytes;
  static constexpr int kBytes = kRestOffset + kRows * Spans::kRestBytes;
  static_assert(kRows % 8 == 0, "a swizzle pattern is eight rows");

  alignas(kTileAlignment) unsigned char bytes[kBytes];

  /// Loads `kRows` rows, beginning with `row`; rows beyond the operand are filled with zeros.
  __device__ __forceinline__ void load(const OperandMaps& maps, std::uint64_t* full, int row,
                                       int head, int image) {
    ptx::mbarrier_arrive_expect_tx(full, kBytes);
#pragma unroll
    for (int span = 0; span < Spans::kWide; ++span) {
      ptx::tma_load_4d(bytes + span * kSpanBytes, &maps.wide, full, span * 64, row, head, image);
    }
    if constexpr (Spans::kRest != 0) {
      ptx::tma_load_4d(bytes + kRestOffset, &maps.rest, full, Spans::kWide * 64, row, head, image);
    }
  }
};

/// Starts S (64, N) = Q (64, head_dim) K (N, head_dim)^T without waiting for it.
template <typename Element, int N, int kHeadDim, int kKeyRows>
__device__ __forceinline__ void start_scores(float (&s)[N / 2],
                                             const HeadTile<kHeadDim, kTileRows>& q,
                                             const HeadTile<kHeadDim, kKeyRows>& k) {
  using Q = HeadTile<kHeadDim, kTileRows>;
  using K = HeadTile<kHeadDim, kKeyRows>;
  using Mma = typename Element::template Wgmma<N>;
  const std::uint32_t q_address = ptx::shared_address(q.bytes);
  const std::uint32_t k_address = ptx::shared_address(k.bytes);
  const std::uint64_t q_wide = tile::descriptor_k128(q_address);
  const std::uint64_t k_wide = tile::descriptor_k128(k_address);
#pragma unroll
  for (int step = 0; step < Q::kWide * 4; ++step) {
    Mma::ss(s, tile::advance(q_wide, step / 4 * Q::kSpanBytes + step % 4 * 32),
            tile::advance(k_wide, step / 4 * K::kSpanBytes + step % 4 * 32), step != 0);
  }
  if constexpr (Q::kRest != 0) {
    const std::uint64_t q_rest =
        tile::descriptor(q_address + Q::kRestOffset, 16, 8 * Q::kRestBytes, Q::kRestMode);
    const std::uint64_t k_rest =
        tile::descriptor(k_address + K::kRestOffset, 16, 8 * Q::kRestBytes, Q::kRestMode);
#pragma unroll
    for (int step = 0; step < Q::kRest / 16; ++step) {
      Mma::ss(s, tile::advance(q_rest, step * 32), tile::advance(k_rest, step * 32), 1);
    }
  }
}

/// Accumulators of the output O (64, head_dim).
template <int kHeadDim>
struct OutputTile {
  using Spans = HeadSpans<kHeadDim>;
  static constexpr int kWideRegisters = Spans::kWide * 32;
  static constexpr int kRestRegisters = Spans::kRest / 2;

  float wide[kWideRegisters];
  float rest[kRestRegisters == 0 ? 1 : kRestRegisters];

  template <typename F>
  __device__ __forceinline__ void for_each(F f) {
#pragma unroll
    for (int i = 0; i < kWideRegisters; ++i) {
      f(wide[i], i / 2 % 2);
    }
#pragma unroll
    for (int i = 0; i < kRestRegisters; ++i) {
      f(rest[i], i / 2 % 2);
    }
  }
  /// Multiplies row `lane / 4` of the warp by `upper`, and row `lane / 4 + 8` by `lower`.
  __device__ __forceinline__ void multiply(float upper, float lower) {
    for_each([&](float& x, int half) { x *= half == 0 ? upper : lower; });
  }
  __device__ __forceinline__ void fence() {
    for_each([](float& x, int) { ptx::wgmma_fence_operand(x); });
  }
};

/// Starts O (+)= P (64, 16) V (16, head_dim) without waiting for it, where V begins with row `16 *
/// step` of the tile.
template <typename Element, int kHeadDim, int kKeyRows>
__device__ __forceinline__ void start_output(OutputTile<kHeadDim>& o, const std::uint32_t (&p)[4],
                                             const HeadTile<kHeadDim, kKeyRows>& v, int step,
                                             bool accumulate) {
  using V = HeadTile<kHeadDim, kKeyRows>;
  const std::uint32_t address = ptx::shared_address(v.bytes);
  const std::uint64_t wide =
      tile::descriptor(address, V::kSpanBytes, 1024, tile::SwizzleMode::k128);
  Element::template Wgmma<V::kWide * 64, 1>::rs(o.wide, p, tile::advance(wide, step * 16 * 128),
                                                accumulate);
  if constexpr (V::kRest != 0) {
    const std::uint64_t rest =
        tile::descriptor(address + V::kRestOffset, 16, 8 * V::kRestBytes, V::kRestMode);
    Element::template Wgmma<V::kRest, 1>::rs(
        o.rest, p, tile::advance(rest, step * 16 * V::kRestBytes), accumulate);
  }
}

}  // namespace fovea::attention
