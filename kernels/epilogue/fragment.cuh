// Epilogue from a warpgroup's accumulators (64, kColumns) to rows of the output in global memory.
//
// B's rows are permuted when they are loaded, so that a lane's accumulators are kVector columns
// that lie side by side and are stored at once, with no exchange between lanes: column
//   group * 4 kVector + 8 j + 2 q + e  of the matrix unit  is column
//   group * 4 kVector + kVector q + 2 j + e  of the output,  j < kVector / 2, q < 4, e < 2,
// q being the lane within its quad. A quad stores 4 kVector columns of a row.
#pragma once

#include <cstdint>

#include "kernels/epilogue/arithmetic.cuh"
#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/epilogue/row.cuh"
#include "kernels/epilogue/words.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::epilogue {

/// Cfg: kColumns, kVector, kAhead (groups of columns whose addends are on their way to registers),
/// and what Arithmetic takes.
template <typename Cfg>
struct Fragment {
  static constexpr int kVector = Cfg::kVector;
  static constexpr int kGroupColumns = kQuad * kVector;
  static constexpr int kGroups = Cfg::kColumns / kGroupColumns;
  static constexpr int kWords = kVector / 2;  // of an addend, bf16 pairs
  using Values = Arithmetic<Cfg>;
  static constexpr bool kHasBias = Values::kHasBias;
  static constexpr bool kHasAddend =
      Cfg::kEpilogue == Kind::kResidual || Cfg::kEpilogue == Kind::kPosition;
  static_assert(Cfg::kColumns % kGroupColumns == 0);

  /// What is added to a row of the tile: the residual or the position's row.
  struct Addend {
    std::uint32_t words[kHasAddend ? kGroups : 1][kWords];
  };

  /// kWhole: no column of the tile lies outside.
  template <bool kWhole>
  static __device__ __forceinline__ bool inside(const Params& p, std::int32_t column) {
    return kWhole || column < p.columns;
  }

  /// This lane's first column of a group.
  static __device__ __forceinline__ std::int32_t column_of(std::int32_t first, int group) {
    return first + group * kGroupColumns + static_cast<std::int32_t>(threadIdx.x % kQuad) * kVector;
  }

  static __device__ __forceinline__ const std::uint16_t* addend_row(const Params& p,
                                                                    const Row& row) {
    const bool residual = Cfg::kEpilogue == Kind::kResidual;
    return static_cast<const std::uint16_t*>(residual ? p.output : p.position) +
           static_cast<std::int64_t>(residual ? row.index : row.token) * p.columns;
  }

  template <bool kWhole>
  static __device__ __forceinline__ void load_addend(Addend& addend, const Params& p,
                                                     const Row& row, std::int32_t first_column,
                                                     int group) {
    const std::int32_t column = column_of(first_column, group);
    // Not to be kept from the tile before, which would hold registers meanwhile.
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      addend.words[group][i] = 0;
    }
    if (row.valid && inside<kWhole>(p, column)) {
      load_words(addend.words[group], addend_row(p, row) + column);
    }
  }

  /// The first groups to registers, the others to L2. store() loads them on its way.
  template <bool kWhole>
  static __device__ __forceinline__ void load_addends(Addend (&addends)[2], const Params& p,
                                                      const Row (&rows)[2],
                                                      std::int32_t first_column) {
    if constexpr (kHasAddend) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::int32_t column = column_of(first_column, group);
          if (group < Cfg::kAhead) {
            load_addend<kWhole>(addends[h], p, rows[h], first_column, group);
          } else if (threadIdx.x % kQuad == 0 && rows[h].valid && inside<kWhole>(p, column)) {
            ptx::prefetch_l2(addend_row(p, rows[h]) + column);
          }
        }
      }
    }
  }

  /// Scales of two rows; asked for before the products, so that no warp waits for them after.
  struct RowScales {
    float values[2];
    float shifts[2];  // kNormed
  };
  // Loads are ordinary ones: the grid before this one may write them while this one already runs.
  static __device__ __forceinline__ RowScales load_row_scales(const Params& p,
                                                              const Row (&rows)[2]) {
    RowScales scales{{1.0F, 1.0F}, {0.0F, 0.0F}};
    if constexpr (Cfg::kNormed) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const auto norm =
            rows[h].valid ? reinterpret_cast<const float2*>(p.row_norm)[rows[h].index] : float2{};
        scales.values[h] = norm.x;
        scales.shifts[h] = norm.y;
      }
    } else if (Cfg::kScaled && p.row_scale != nullptr) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        scales.values[h] = rows[h].valid ? p.row_scale[rows[h].index] : 0.0F;
      }
    }
    return scales;
  }

  /// Scale (or sum) and bias of the tile's columns in shared memory.
  struct SharedColumns {
    const float* scales;
    const float* biases;

    __device__ __forceinline__ void load(int group, float (&scale)[kVector],
                                         float (&bias)[kVector]) const {
      if constexpr (Cfg::kScaled || Cfg::kNormed) {
        load_floats(scale, scales + column_of(0, group));
      }
      if constexpr (kHasBias) {
        load_floats(bias, biases + column_of(0, group));
      }
    }
  };

  /// This lane's in registers. Instead of a bias there may be a position, which both rows share.
  struct RegisterColumns {
    float scales[kGroups][kVector];
    float biases[kGroups][kVector];

    __device__ __forceinline__ void load_scales(const Params& p, std::int32_t first_column) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        load_floats(scales[group], p.column_scale + column_of(first_column, group));
      }
    }
    __device__ __forceinline__ void load_biases(const Params& p, std::int32_t first_column) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        load_floats(biases[group], p.bias + column_of(first_column, group));
      }
    }
    __device__ __forceinline__ void load_position(const Params& p, std::int32_t token,
                                                  std::int32_t first_column) {
      const auto* const row = static_cast<const std::uint16_t*>(p.position) +
                              static_cast<std::int64_t>(token) * p.columns;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        std::uint32_t words[kWords];
        load_words(words, row + column_of(first_column, group));
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          biases[group][2 * i] = ptx::bf16_low(words[i]);
          biases[group][2 * i + 1] = ptx::bf16_high(words[i]);
        }
      }
    }
    __device__ __forceinline__ void load(int group, float (&scale)[kVector],
                                         float (&bias)[kVector]) const {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        scale[v] = scales[group][v];
        bias[v] = biases[group][v];
      }
    }
  };

  /// Where a lane's accumulators have column `v` of a group, in the upper or lower of its rows.
  static __device__ __forceinline__ constexpr int place_of(int group, int lower, int v) {
    return 4 * (group * kVector / 2 + v / 2) + 2 * lower + v % 2;
  }

  /// kAddends: there is something to add that `columns` does not have.
  template <bool kWhole, bool kRowScaled, bool kAddends, typename Columns, typename Accumulator>
  static __device__ __forceinline__ void store(const Accumulator (&accumulators)[Cfg::kColumns / 2],
                                               const Params& p, const Row (&rows)[2],
                                               const RowScales& row_scales, const Columns& columns,
                                               std::int32_t first_column, Addend (&addends)[2]) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {  // region: epilogue loop
      const std::int32_t column = column_of(first_column, group);
      if (!inside<kWhole>(p, column)) {
        continue;
      }
      float scale[kVector];
      float bias[kVector];
      columns.load(group, scale, bias);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float y[kVector];
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          float other = 0.0F;
          if constexpr (kAddends) {
            const std::uint32_t pair = addends[h].words[group][v / 2];
            other = v % 2 == 0 ? ptx::bf16_low(pair) : ptx::bf16_high(pair);
          }
          const bool table = Cfg::kEpilogue == Kind::kPosition && kAddends;
          y[v] = Values::template scaled<kRowScaled>(accumulators[place_of(group, h, v)],
                                                     row_scales.values[h], row_scales.shifts[h],
                                                     scale[v], table ? other : bias[v]);
          if constexpr (Cfg::kEpilogue == Kind::kResidual) {
            y[v] += other;
          }
        }
        if (rows[h].valid) {
          store_vector(y, p, static_cast<std::int64_t>(rows[h].index) * p.columns + column);
        }
        if constexpr (kAddends) {
          if (group + Cfg::kAhead < kGroups) {
            load_addend<kWhole>(addends[h], p, rows[h], first_column, group + Cfg::kAhead);
          }
        }
      }
    }  // end region
  }

  /// Adds to a tile in shared memory, which is bf16 (kGroups, rows, kGroupColumns); `place` is this
  /// lane's in the first group, and 16 bytes a row are free of bank conflicts.
  template <typename Columns, typename Accumulator>
  static __device__ __forceinline__ void add_in_shared(
      const Accumulator (&accumulators)[Cfg::kColumns / 2], std::uint8_t* place, int group_bytes,
      const RowScales& row_scales, const Columns& columns) {
    static_assert(Cfg::kEpilogue == Kind::kResidual && Cfg::kOutput == Output::kBF16);
    constexpr int kLowerRow = 8 * kGroupColumns * 2;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float scale[kVector];
      float bias[kVector];
      columns.load(group, scale, bias);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        std::uint8_t* const target = place + group * group_bytes + h * kLowerRow;
        std::uint32_t words[kWords];
        load_words(words, target);
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          float y[2];
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            y[v] = Values::template scaled<true>(accumulators[place_of(group, h, 2 * i + v)],
                                                 row_scales.values[h], row_scales.shifts[h],
                                                 scale[2 * i + v], bias[2 * i + v]);
          }
          words[i] =
              ptx::cvt_bf16x2(y[0] + ptx::bf16_low(words[i]), y[1] + ptx::bf16_high(words[i]));
        }
        store_words(target, words);
      }
    }
  }

 private:
  /// Activation, rounding and store of columns that lie side by side.
  static __device__ __forceinline__ void store_vector(const float (&y)[kVector], const Params& p,
                                                      std::int64_t target) {
    std::uint32_t packed[kVector * Values::kBytes / 4];
    Values::round(y, p, packed);
    if constexpr (Values::kBytes == 2) {
      store_words(static_cast<std::uint16_t*>(p.output) + target, packed);
    } else {
      store_words(static_cast<std::uint8_t*>(p.output) + target, packed);
    }
  }
};

}  // namespace fovea::epilogue
