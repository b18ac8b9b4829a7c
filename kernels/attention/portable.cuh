// Attention on any GPU from sm_80 on, 16-bit elements: O = softmax(scale Q K^T) V, O in 16 bits or
// e4m3; causal or not. What runs where no kernel is tuned for the device or the strides.
//
// Contract: any lengths, head dimensions that are multiples of 8 up to kColumns, strides that are
// multiples of 8 elements from 16-byte aligned addresses; causal needs queries <= keys.
// Deterministic.
//
// A block has 64 queries of one head, 16 a warp, held in registers as fragments. Keys and values
// come in blocks of 64 through two buffers: block i + 1 is copied while block i is multiplied.
// Rows of shared memory are permuted in units of 16 bytes, so that ldmatrix meets no bank twice.
#pragma once

#include <cstdint>

#include "kernels/attention/element.cuh"
#include "kernels/attention/params.hpp"
#include "kernels/attention/softmax.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/matrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

template <typename ElementType, int kPaddedHeadDim>
struct PortableCfg {
  using Element = ElementType;
  static constexpr int kColumns = kPaddedHeadDim;  // of a head, with zeros
  static constexpr int kThreads = kPortableThreads;
  static constexpr int kRows = kTileRows;  // of queries, and of a block of keys
  static constexpr std::size_t kSharedBytes = kPortableTiles * portable_tile_bytes(kColumns);
  static constexpr int kUnits = kColumns / 8;
  static constexpr int kKeySteps = kColumns / 16;  // of Q K^T
  static constexpr int kSteps = kRows / 16;        // of P V
  static_assert(kColumns == 64 || kColumns == 128, "units are permuted eight at a time");
};

/// (64, kColumns), permuted.
template <typename Cfg>
struct PortableTile {
  alignas(128) unsigned char bytes[Cfg::kRows * Cfg::kColumns * 2];

  __device__ __forceinline__ std::uint32_t place(int row, int unit) const {
    return ptx::shared_address(bytes) + (row * Cfg::kUnits + (unit ^ (row & 7))) * 16;
  }

  /// Starts the copy of rows `first` on of a head; what lies outside becomes zero.
  __device__ __forceinline__ void load(const std::uint8_t* head, std::int64_t row_stride, int first,
                                       int rows, int head_dim) {
    for (int i = threadIdx.x; i < Cfg::kRows * Cfg::kUnits; i += Cfg::kThreads) {
      const int row = i / Cfg::kUnits;
      const int unit = i % Cfg::kUnits;
      const bool inside = first + row < rows && unit * 8 < head_dim;
      const std::int64_t offset = inside ? (first + row) * row_stride + unit * 8 : 0;
      ptx::cp_async_16(place(row, unit), head + offset * 2, inside ? 16 : 0);
    }
  }
};

template <typename Cfg>
struct PortableStorage {
  PortableTile<Cfg> queries;
  PortableTile<Cfg> keys[2];
  PortableTile<Cfg> values[2];
};

/// S (16, 64) of a warp.
template <typename Cfg>
__device__ __forceinline__ void scores(float (&s)[Cfg::kRows / 8][4],
                                       const std::uint32_t (&q)[Cfg::kKeySteps][4],
                                       const PortableTile<Cfg>& keys, int lane) {
#pragma unroll
  for (auto& group : s) {
    for (float& x : group) {
      x = 0.0F;
    }
  }
#pragma unroll
  for (int step = 0; step < Cfg::kKeySteps; ++step) {
#pragma unroll
    for (int pair = 0; pair < Cfg::kRows / 16; ++pair) {
      std::uint32_t k[4];
      ptx::ldmatrix_x4(k,
                       keys.place(pair * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
      Cfg::Element::mma(s[pair * 2], q[step], k[0], k[1]);
      Cfg::Element::mma(s[pair * 2 + 1], q[step], k[2], k[3]);
    }
  }
}

/// O (16, kColumns) += P V.
template <typename Cfg>
__device__ __forceinline__ void weigh(float (&o)[Cfg::kColumns / 8][4],
                                      const std::uint32_t (&p)[Cfg::kSteps][4],
                                      const PortableTile<Cfg>& values, int lane) {
#pragma unroll
  for (int step = 0; step < Cfg::kSteps; ++step) {
#pragma unroll
    for (int pair = 0; pair < Cfg::kColumns / 16; ++pair) {
      std::uint32_t v[4];
      ptx::ldmatrix_x4_trans(v, values.place(step * 16 + lane % 16, pair * 2 + lane / 16));
      Cfg::Element::mma(o[pair * 2], p[step], v[0], v[1]);
      Cfg::Element::mma(o[pair * 2 + 1], p[step], v[2], v[3]);
    }
  }
}

/// Writes the rows of a warp, `row` on, to a head of the output.
template <typename Cfg>
__device__ __forceinline__ void write_output(const PortableParams& params,
                                             const float (&o)[Cfg::kColumns / 8][4],
                                             std::int64_t head_offset, int row, int queries,
                                             int lane) {
#pragma unroll
  for (int i = 0; i < Cfg::kColumns / 4; ++i) {
    const int r = row + lane / 4 + i % 2 * 8;
    const int column = i / 2 * 8;
    if (r >= queries || column >= params.head_dim) {
      continue;
    }
    const float low = o[i / 2][i % 2 * 2];
    const float high = o[i / 2][i % 2 * 2 + 1];
    const std::int64_t at = head_offset + r * params.o.row + column + lane % 4 * 2;
#if __CUDA_ARCH__ >= 890  // the launcher refuses e4m3 on others
    if (params.output_e4m3 != 0) {
      *reinterpret_cast<std::uint16_t*>(params.o.data + at) = ptx::cvt_e4m3x2(low, high);
      continue;
    }
#endif
    *reinterpret_cast<std::uint32_t*>(params.o.data + at * 2) = Cfg::Element::pack(low, high);
  }
}

template <typename Cfg>
__device__ __forceinline__ void portable(const PortableParams& params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<PortableStorage<Cfg>*>(memory);
  static_assert(sizeof(shared) == Cfg::kSharedBytes);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int image = blockIdx.x / params.heads;
  const int head = blockIdx.x % params.heads;
  const int first = blockIdx.y * Cfg::kRows;
  const int row = first + warp * 16;
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
#endif
  int queries = params.queries;
  int keys = params.keys;
  std::int64_t query_start = image * params.q.batch;
  std::int64_t key_start = image * params.k.batch;
  std::int64_t value_start = image * params.v.batch;
  std::int64_t output_start = image * params.o.batch;
  if (params.varlen != 0) {
    const std::int64_t query_row = params.query_starts[image];
    const std::int64_t key_row = params.key_starts[image];
    queries = params.query_starts[image + 1] - static_cast<int>(query_row);
    keys = params.key_starts[image + 1] - static_cast<int>(key_row);
    query_start = query_row * params.q.row;
    key_start = key_row * params.k.row;
    value_start = key_row * params.v.row;
    output_start = query_row * params.o.row;
  }
  const int key_head = head / params.head_group;
  const std::uint8_t* const q_data = params.q.data + (query_start + head * params.q.head) * 2;
  const std::uint8_t* const k_data = params.k.data + (key_start + key_head * params.k.head) * 2;
  const std::uint8_t* const v_data = params.v.data + (value_start + key_head * params.v.head) * 2;

  int seen = keys;
  if (params.causal != 0) {
    seen = min(seen, first + Cfg::kRows + keys - queries);
  }
  const int blocks = (seen + Cfg::kRows - 1) / Cfg::kRows;
  const auto load_block = [&](int block) {
    if (block < blocks) {
      shared.keys[block % 2].load(k_data, params.k.row, block * Cfg::kRows, keys, params.head_dim);
      shared.values[block % 2].load(v_data, params.v.row, block * Cfg::kRows, keys,
                                    params.head_dim);
    }
    ptx::cp_async_commit_group();
  };
  shared.queries.load(q_data, params.q.row, first, queries, params.head_dim);
  load_block(0);

  std::uint32_t q[Cfg::kKeySteps][4];
  float o[Cfg::kColumns / 8][4] = {};
  RowPair max{{kMinusInfinity, kMinusInfinity}};
  RowPair sum{};
  for (int block = 0; block < blocks; ++block) {
    load_block(block + 1);
    ptx::cp_async_wait_group<1>();
    __syncthreads();
    if (block == 0) {
#pragma unroll
      for (int step = 0; step < Cfg::kKeySteps; ++step) {
        ptx::ldmatrix_x4(q[step],
                         shared.queries.place(warp * 16 + lane % 16, step * 2 + lane / 16));
      }
    }
    float groups[Cfg::kRows / 8][4];
    scores<Cfg>(groups, q, shared.keys[block % 2], lane);
    auto& s = *reinterpret_cast<float(*)[Cfg::kRows / 2]>(&groups);
    const int start = block * Cfg::kRows;
    const int causal_keys = row + 1 + keys - queries - start;
    if (params.causal != 0 && causal_keys < Cfg::kRows) {
      mask_causal(s, causal_keys, lane);
    }
    if (start + Cfg::kRows > keys) {
      mask_tail<0>(s, keys - start, lane);
    }
    const RowPair rescale = online_softmax(s, params.scale_log2, max, sum);
    std::uint32_t p[Cfg::kSteps][4];
    pack<typename Cfg::Element>(s, p);
#pragma unroll
    for (int i = 0; i < Cfg::kColumns / 2; ++i) {
      o[i / 4][i % 4] *= rescale.row[i / 2 % 2];
    }
    weigh<Cfg>(o, p, shared.values[block % 2], lane);
    __syncthreads();
  }

  // A row that sees no key has no weights to divide by.
  float inverse[2] = {quad_sum(sum.row[0]), quad_sum(sum.row[1])};
  for (float& x : inverse) {
    x = x > 0.0F ? ptx::rcp_approx(x) : 0.0F;
  }
#pragma unroll
  for (int i = 0; i < Cfg::kColumns / 2; ++i) {
    o[i / 4][i % 4] *= inverse[i / 2 % 2];
  }
  write_output<Cfg>(params, o, output_start + head * params.o.head, row, queries, lane);
}

}  // namespace fovea::attention
