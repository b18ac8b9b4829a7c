// Ring and Signal: barriers in shared memory with which the roles of a block wait for each other,
// and PipeState, the position of a role in them. No other file computes phases and parities.
#pragma once

#include <cstdint>

#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace fovea::pipe {

/// The current stage in a ring of `kStages`, and the parity of the barrier phase to wait for.
template <int kStages>
struct PipeState {
  std::uint32_t stage = 0;
  std::uint32_t phase = 0;

  /// A consumer first waits for the first phase of `full`.
  static __device__ __forceinline__ PipeState consumer_start() { return {0, 0}; }
  /// Stages start empty: a producer first waits for the phase before the first one, which counts as
  /// completed.
  static __device__ __forceinline__ PipeState producer_start() { return {0, 1}; }

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  /// Advances `count` times.
  __device__ __forceinline__ void skip(std::uint32_t count) {
    const std::uint32_t position = stage + count;
    phase ^= position / kStages & 1;
    stage = position % kStages;
  }

  /// Returns the state after this one.
  __device__ __forceinline__ PipeState next() const {
    PipeState state = *this;
    state.advance();
    return state;
  }
};

/// A pair of barriers for each stage: the producer waits for `empty` and fills the stage, and
/// consumers wait for `full` and release the stage.
template <int kStages>
struct Ring {
  using State = PipeState<kStages>;

  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  /// Must be called by one thread before the block (or cluster) first synchronises. A phase ends
  /// after `producers` arrivals at `full`, or `consumers` arrivals at `empty`.
  __device__ __forceinline__ void init(std::uint32_t producers, std::uint32_t consumers) {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(&full[i], producers);
      ptx::mbarrier_init(&empty[i], consumers);
    }
  }

  /// Waits until the consumers have released the stage.
  __device__ __forceinline__ void wait_empty(const State& state) {
    ptx::mbarrier_wait_parity(&empty[state.stage], state.phase);
  }
  /// The producer's arrival: the stage is full when TMA has delivered `bytes`.
  __device__ __forceinline__ void expect(std::uint32_t stage, std::uint32_t bytes) {
    ptx::mbarrier_arrive_expect_tx(&full[stage], bytes);
  }

  /// Waits until the producer's copies to the stage have arrived.
  __device__ __forceinline__ void wait_full(const State& state) {
    ptx::mbarrier_wait_parity(&full[state.stage], state.phase);
  }
  /// A consumer's arrival: it has read the stage.
  __device__ __forceinline__ void release(std::uint32_t stage) {
    ptx::mbarrier_arrive(&empty[stage]);
  }
  /// The same for the stage of block `rank` of the cluster.
  __device__ __forceinline__ void release(std::uint32_t stage, std::uint32_t rank) {
    ptx::mbarrier_arrive_cluster(&empty[stage], rank);
  }

  /// Waits until all stages are released. The producer calls it at the end, because a block must
  /// not exit while others of the cluster may still arrive at its barriers.
  __device__ __forceinline__ void drain(State state) {
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      wait_empty(state);
      state.advance();
    }
  }
};

/// A single barrier for a repeated event, such as a turn or the arrival of data: some threads
/// arrive, and others wait for each phase.
struct Signal {
  using State = PipeState<1>;

  std::uint64_t barrier;

  __device__ __forceinline__ void init(std::uint32_t arrivals) {
    ptx::mbarrier_init(&barrier, arrivals);
  }
  __device__ __forceinline__ void arrive() { ptx::mbarrier_arrive(&barrier); }
  /// Arrives, and lets the phase end only when TMA has delivered `bytes`.
  __device__ __forceinline__ void expect(std::uint32_t bytes) {
    ptx::mbarrier_arrive_expect_tx(&barrier, bytes);
  }
  /// Waits until the phase of `state` ends, and advances `state`.
  __device__ __forceinline__ void wait(State& state) {
    ptx::mbarrier_wait_parity(&barrier, state.phase);
    state.advance();
  }
};

}  // namespace fovea::pipe
