// The rows of one head in one sequence that a block of the portable attention kernels works on.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/memory.cuh"

namespace fovea::attention {

/// The query tile, head and image of a block. Consecutive blocks share a head. Causal tiles are
/// numbered from the last, which has the most work, to the first.
struct BlockPlace {
  int tile, head, image;
  __device__ __forceinline__ BlockPlace(const PortableParams& params, std::uint32_t block) {
    const int head_of_all = static_cast<int>(block) / params.tiles;
    tile = static_cast<int>(block) - head_of_all * params.tiles;
    if (params.causal != 0) {
      tile = params.tiles - 1 - tile;
    }
    image = head_of_all / params.heads;
    head = head_of_all - image * params.heads;
  }
};

/// The lengths of a sequence, and the addresses of one head's first rows.
struct HeadRows {
  int queries, keys;
  const std::uint8_t* q;
  const std::uint8_t* k;
  const std::uint8_t* v;
  std::int64_t output;  // offset of the first row in the output, in elements

  __device__ __forceinline__ HeadRows(const PortableParams& params, const BlockPlace& place) {
    std::int64_t q_start = place.image * params.q.batch;
    std::int64_t k_start = place.image * params.k.batch;
    std::int64_t v_start = place.image * params.v.batch;
    output = place.image * params.o.batch;
    queries = params.queries;
    keys = params.keys;
    if (params.cu_seqlens_q != nullptr) {
      const int query = params.cu_seqlens_q[place.image];
      const int key = params.cu_seqlens_k[place.image];
      queries = params.cu_seqlens_q[place.image + 1] - query;
      keys = params.cu_seqlens_k[place.image + 1] - key;
      q_start = query * params.q.row;
      k_start = key * params.k.row;
      v_start = key * params.v.row;
      output = query * params.o.row;
    }
    const int key_head = place.head / params.head_group;
    q = params.q.data + (q_start + place.head * params.q.head) * 2;
    k = params.k.data + (k_start + key_head * params.k.head) * 2;
    v = params.v.data + (v_start + key_head * params.v.head) * 2;
    output += place.head * params.o.head;
  }

  /// The number of keys that at least one query before `row` attends to.
  __device__ __forceinline__ int seen_below(const PortableParams& params, int row) const {
    return params.causal != 0 ? min(keys, row + keys - queries) : keys;
  }
};

/// Factor that normalises a row whose probabilities add up to `sum`; 0 for a row that sees no key.
__device__ __forceinline__ float inverse_of(float sum) {
  return sum > 0.0F ? ptx::rcp_approx(sum) : 0.0F;
}

/// Writes eight columns of the output from element `element` on, which is a multiple of 8.
template <typename Element>
__device__ __forceinline__ void store_unit(const PortableParams& params, std::int64_t element,
                                           const float (&x)[8]) {
  ptx::st_global_v4(params.o.data + element * 2, Element::pack(x[0], x[1]),
                    Element::pack(x[2], x[3]), Element::pack(x[4], x[5]),
                    Element::pack(x[6], x[7]));
}

/// Writes two columns of the output from element `element` on, which is a multiple of 2.
template <typename Element>
__device__ __forceinline__ void store_pair(const PortableParams& params, std::int64_t element,
                                           float low, float high) {
  ptx::st_global(params.o.data + element * 2, Element::pack(low, high));
}

}  // namespace fovea::attention
