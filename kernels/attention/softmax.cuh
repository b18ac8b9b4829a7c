// Softmax over the rows of a wgmma accumulator: each row lies in the four threads of a quad, two
// rows a thread, `lane / 4` and `lane / 4 + 8` of the warp's sixteen.
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

/// The greatest of each row, in all threads of the quad.
template <int kRegisters>
__device__ __forceinline__ RowPair row_max(const float (&s)[kRegisters]) {
  // One chain of comparisons a row would wait for each of them.
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

/// Takes the scores of keys from `keys` on out of the softmax; the accumulator's first column is
/// key 0. Looks only at groups of eight columns from `kFirst` on.
template <int kFirst, int kRegisters>
__device__ __forceinline__ void mask_tail(float (&s)[kRegisters], int keys, int lane) {
#pragma unroll
  for (int i = kFirst / 8 * 4; i < kRegisters; ++i) {
    if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= keys) {
      s[i] = kMinusInfinity;
    }
  }
}

/// The same where each of a thread's rows sees keys of its own number.
template <int kRegisters>
__device__ __forceinline__ void mask_rows(float (&s)[kRegisters], const int (&keys)[2], int lane) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= keys[i / 2 % 2]) {
      s[i] = kMinusInfinity;
    }
  }
}

/// The same where row `r` of the warp sees keys below `keys + r`.
template <int kRegisters>
__device__ __forceinline__ void mask_causal(float (&s)[kRegisters], int keys, int lane) {
  mask_rows(s, {keys + lane / 4, keys + lane / 4 + 8}, lane);
}

/// S becomes 2^(scale_log2 * (S - max)) with the maxima of all blocks so far; `sum` follows.
/// Returns what sums before this block are to be multiplied by.
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
    // A row that has seen no key yet has nothing to shift by.
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

/// What the exponents of a block of scores are shifted by, whose greatest are `block`:
/// probabilities are 2^(scale_log2 * s - shift), the greatest of a row exactly 1. `max` (in powers
/// of two: times scale_log2) follows; `rescale(factors)` is for sums before this block. Without
/// kAlways it is called only when some row of the warp has a greater maximum than before; with it
/// no branch keeps instructions before and after from each other's places.
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
  // A row that has seen no key yet has nothing to shift by.
  return {{max.row[0] == kMinusInfinity ? 0.0F : max.row[0],
           max.row[1] == kMinusInfinity ? 0.0F : max.row[1]}};
}

/// S becomes the probabilities.
template <int kRegisters>
__device__ __forceinline__ void take_probabilities(float (&s)[kRegisters], float scale_log2,
                                                   const RowPair& shift) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    s[i] = ptx::ex2_approx(fmaf(s[i], scale_log2, -shift.row[i / 2 % 2]));
  }
}

/// The probabilities and, in `sum`, what they add up to.
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
