// Softmax over the rows of a wgmma accumulator. Each row is held by the four threads of a quad; a
// thread has two rows, `lane / 4` and `lane / 4 + 8` of the warp's sixteen.
#pragma once

#include <cstdint>

#include "kernels/ptx/math.cuh"

namespace fovea::attention {

inline constexpr float kMinusInfinity = -__builtin_huge_valf();

/// A value for each of a thread's two rows.
struct RowPair {
  float row[2];
};

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

/// Returns the maximum of each row, to all threads of the quad.
template <int kRegisters>
__device__ __forceinline__ RowPair row_max(const float (&s)[kRegisters]) {
  // Several chains of comparisons per row, so that their latencies overlap.
  constexpr int kChains = 8;
  static_assert(kRegisters >= kChains);
  float max[kChains];
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    float& m = max[i % kChains];
    m = i < kChains ? s[i] : fmaxf(m, s[i]);
  }
  RowPair row;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float* const m = &max[i * 2];
    row.row[i] = fmaxf(fmaxf(m[0], m[1]), fmaxf(m[4], m[5]));
  }
  return {{quad_max(row.row[0]), quad_max(row.row[1])}};
}

/// Masks the scores of keys from `keys` on; the accumulator's first column is key 0. Checks only
/// groups of eight columns from column `kFirst` on.
template <int kFirst, int kRegisters>
__device__ __forceinline__ void mask_tail(float (&s)[kRegisters], int keys, int lane) {
#pragma unroll
  for (int i = kFirst / 8 * 4; i < kRegisters; ++i) {
    if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= keys) {
      s[i] = kMinusInfinity;
    }
  }
}

/// The same with a separate number of keys for each of a thread's rows.
template <int kRegisters>
__device__ __forceinline__ void mask_rows(float (&s)[kRegisters], const int (&keys)[2], int lane) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= keys[i / 2 % 2]) {
      s[i] = kMinusInfinity;
    }
  }
}

/// The same with `keys + r` keys for row `r` of the warp.
template <int kRegisters>
__device__ __forceinline__ void mask_causal(float (&s)[kRegisters], int keys, int lane) {
  mask_rows(s, {keys + lane / 4, keys + lane / 4 + 8}, lane);
}

/// Replaces S by 2^(scale_log2 * (S - max)), where `max` is the maximum over all blocks so far, and
/// updates `max` and `sum`. Returns the factors by which sums over earlier blocks must be
/// multiplied.
template <int kRegisters>
__device__ __forceinline__ RowPair online_softmax(float (&s)[kRegisters], float scale_log2,
                                                  RowPair& max, RowPair& sum) {
  const RowPair block = row_max(s);
  RowPair shift;
  RowPair rescale;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float before = max.row[i] * scale_log2;
    max.row[i] = fmaxf(max.row[i], block.row[i]);
    // The maximum is -inf for a row that has seen no key yet: it must not be subtracted.
    shift.row[i] = max.row[i] == kMinusInfinity ? 0.0F : max.row[i] * scale_log2;
    rescale.row[i] = ptx::ex2_approx(before - shift.row[i]);
    sum.row[i] *= rescale.row[i];
  }
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    s[i] = ptx::ex2_approx(fmaf(s[i], scale_log2, -shift.row[i / 2 % 2]));
    sum.row[i / 2 % 2] += s[i];
  }
  return rescale;
}

/// Returns the shifts of a block of scores whose row maxima are `block`: probabilities are
/// 2^(scale_log2 * s - shift), so that the largest of a row is exactly 1. Updates `max`, which is
/// multiplied by scale_log2. `rescale(factors)` must rescale the sums over earlier blocks. Without
/// kAlways it is called only when the maximum of a row of the warp has grown; with kAlways there is
/// no branch, which would keep the compiler from moving instructions across it.
template <bool kAlways, typename Rescale>
__device__ __forceinline__ RowPair raise_maxima(const RowPair& block, float scale_log2,
                                                RowPair& max, Rescale rescale) {
  bool grown = false;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    grown = grown || block.row[i] * scale_log2 > max.row[i];
  }
  if (kAlways || __any_sync(0xffffffffU, grown ? 1 : 0) != 0) {
    RowPair factors;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float before = max.row[i];
      max.row[i] = fmaxf(before, block.row[i] * scale_log2);
      factors.row[i] = max.row[i] == kMinusInfinity ? 1.0F : ptx::ex2_approx(before - max.row[i]);
    }
    rescale(factors);
  }
  // The maximum is -inf for a row that has seen no key yet: it must not be subtracted.
  return {{max.row[0] == kMinusInfinity ? 0.0F : max.row[0],
           max.row[1] == kMinusInfinity ? 0.0F : max.row[1]}};
}

/// Replaces the scores by the probabilities.
template <int kRegisters>
__device__ __forceinline__ void take_probabilities(float (&s)[kRegisters], float scale_log2,
                                                   const RowPair& shift) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    s[i] = ptx::ex2_approx(fmaf(s[i], scale_log2, -shift.row[i / 2 % 2]));
  }
}

/// The same, and adds the probabilities to `sum`.
template <int kRegisters>
__device__ __forceinline__ void take_probabilities(float (&s)[kRegisters], float scale_log2,
                                                   const RowPair& shift, RowPair& sum) {
  take_probabilities(s, scale_log2, shift);
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    sum.row[i / 2 % 2] += s[i];
  }
}

template <typename Element, int kSteps>
__device__ __forceinline__ void pack(const float (&s)[kSteps * 8], std::uint32_t (&p)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < kSteps * 4; ++i) {
    p[i / 4][i % 4] = Element::pack(s[2 * i], s[2 * i + 1]);
  }
}

}  // namespace fovea::attention
