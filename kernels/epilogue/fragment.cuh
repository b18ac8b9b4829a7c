// Epilogue from a warpgroup's accumulators (64, kColumns) to rows of the output in global memory.
//
// B's rows are permuted when they are loaded, so that a lane's accumulators are kVector adjacent
// columns, which are stored at once without exchange between lanes: column
//   group * 4 kVector + 8 j + 2 q + e  of the matrix unit  is column
//   group * 4 kVector + kVector q + 2 j + e  of the output,  j < kVector / 2, q < 4, e < 2,
// where q is the lane within its quad. A quad stores 4 kVector columns of a row.
#pragma once

#include <cstdint>

#include "kernels/epilogue/arithmetic.cuh"
#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/epilogue/row.cuh"
#include "kernels/epilogue/words.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::epilogue {

/// Cfg defines kColumns, kVector, kAhead (number of column groups whose addends are prefetched to
/// registers), and the members required by Arithmetic.
template <typename Cfg>
struct Fragment {
  static constexpr int kVector = Cfg::kVector;
  static constexpr int kGroupColumns = kQuad * kVector;
  static constexpr int kGroups = Cfg::kColumns / kGroupColumns;
  static constexpr int kWords = kVector / 2;  // words per addend, each with two bf16 values
  using Values = Arithmetic<Cfg>;
  static constexpr bool kHasBias = Values::kHasBias;
  static constexpr bool kHasAddend =
      Cfg::kEpilogue == Kind::kResidual || Cfg::kEpilogue == Kind::kPosition;
  static_assert(Cfg::kColumns % kGroupColumns == 0);

  /// The values to add to a row of the tile: the residual's or the position table's row.
  struct Addend {
    std::uint32_t words[kHasAddend ? kGroups : 1][kWords];
  };

  /// Whether the column exists; with kWhole all columns of the tile do.
  template <bool kWhole>
  static __device__ __forceinline__ bool inside(const Params& p, std::int32_t column) {
    return kWhole || column < p.columns;
  }

  /// This lane's first column in a group.
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
    // Cleared, so that values of the previous tile do not occupy registers until here.
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      addend.words[group][i] = 0;
    }
    if (row.valid && inside<kWhole>(p, column)) {
      load_words(addend.words[group], addend_row(p, row) + column);
    }
  }

  /// Loads the first groups into registers and prefetches the others to L2; store() loads those.
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

  /// Scales of two rows, loaded before the products so that no warp waits for them afterwards.
  struct RowScales {
    float values[2];
    float shifts[2];  // only with kNormed
  };
  // Not loaded through the read-only cache, because the previous grid may still write them when
  // this one starts.
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

  /// Scales (or sums) and biases of the tile's columns in shared memory.
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

  /// Scales and biases of this lane's columns in registers. A row of the position table, common to
  /// both rows, may replace the biases.
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

  /// The index of the accumulator for column `v` of a group, in the upper or lower of a lane's two
  /// rows.
  static __device__ __forceinline__ constexpr int place_of(int group, int lower, int v) {
    return 4 * (group * kVector / 2 + v / 2) + 2 * lower + v % 2;
  }

  /// Stores a lane's part of the tile. With kAddends, `addends` are added, too.
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

  /// Adds the products to a bf16 tile (kGroups, rows, kGroupColumns) in shared memory; `place` is
  /// this lane's address in the first group. Accesses of 16 bytes per row have no bank conflicts.
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
  /// Applies the activation to adjacent columns, and rounds and stores them.
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
