// PipeState: where a role stands in a ring of stages; and the full/empty barriers of the ring.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace fovea::pipe {

/// A stage of a ring of `kStages` and the parity of the phase that its barriers are in.
template <int kStages>
struct PipeState {
  std::uint32_t stage = 0;
  std::uint32_t phase = 0;

  /// Consumers wait for the first phase of `full`.
  static __device__ __forceinline__ PipeState consumer_start() { return {0, 0}; }
  /// Stages are empty at the start: a producer's first wait is for the phase before the first.
  static __device__ __forceinline__ PipeState producer_start() { return {0, 1}; }

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  /// As `count` times advance().
  __device__ __forceinline__ void skip(std::uint32_t count) {
    const std::uint32_t position = stage + count;
    phase ^= position / kStages & 1;
    stage = position % kStages;
  }
};

/// A pair of barriers a stage: the producer fills, consumers empty.
template <int kStages>
struct PipeBarriers {
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  /// One thread calls this before the block's (or cluster's) first synchronisation.
  __device__ __forceinline__ void init(std::uint32_t producers, std::uint32_t consumers) {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(&full[i], producers);
      ptx::mbarrier_init(&empty[i], consumers);
    }
  }
};

}  // namespace fovea::pipe
