// Ring and Signal: barriers in shared memory by which roles of a block wait for each other, and
// PipeState, where a role stands with them. Parities and phases are told here alone.
#pragma once

#include <cstdint>

#include "kernels/ptx/cluster.cuh"
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

  /// Advances `count` times.
  __device__ __forceinline__ void skip(std::uint32_t count) {
    const std::uint32_t position = stage + count;
    phase ^= position / kStages & 1;
    stage = position % kStages;
  }

  /// Where advance() leads.
  __device__ __forceinline__ PipeState next() const {
    PipeState state = *this;
    state.advance();
    return state;
  }
};

/// A pair of barriers a stage: the producer waits for `empty` and fills, consumers wait for `full`
/// and release.
template <int kStages>
struct Ring {
  using State = PipeState<kStages>;

  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  /// One thread calls this before the block's (or cluster's) first synchronisation. Arrivals that
  /// end a phase: `producers` of full, `consumers` of empty.
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
  /// The producer's arrival: the stage is full when `bytes` have come by TMA.
  __device__ __forceinline__ void expect(std::uint32_t stage, std::uint32_t bytes) {
    ptx::mbarrier_arrive_expect_tx(&full[stage], bytes);
  }

  /// Waits until the producer's copies to the stage are there.
  __device__ __forceinline__ void wait_full(const State& state) {
    ptx::mbarrier_wait_parity(&full[state.stage], state.phase);
  }
  /// A consumer's arrival: it has read the stage.
  __device__ __forceinline__ void release(std::uint32_t stage) {
    ptx::mbarrier_arrive(&empty[stage]);
  }
  /// The same, to block `rank` of the cluster.
  __device__ __forceinline__ void release(std::uint32_t stage, std::uint32_t rank) {
    ptx::mbarrier_arrive_cluster(&empty[stage], rank);
  }

  /// The producer's last wait, for all stages: others of the cluster still arrive here until then,
  /// so that the block must not end before.
  __device__ __forceinline__ void drain(State state) {
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      wait_empty(state);
      state.advance();
    }
  }
};

/// One barrier, for a turn or for data that comes again and again: some arrive, others wait for
/// phase after phase.
struct Signal {
  using State = PipeState<1>;

  std::uint64_t barrier;

  __device__ __forceinline__ void init(std::uint32_t arrivals) {
    ptx::mbarrier_init(&barrier, arrivals);
  }
  __device__ __forceinline__ void arrive() { ptx::mbarrier_arrive(&barrier); }
  /// An arrival that is complete when `bytes` have come by TMA.
  __device__ __forceinline__ void expect(std::uint32_t bytes) {
    ptx::mbarrier_arrive_expect_tx(&barrier, bytes);
  }
  /// Waits for the end of the phase that `state` is in, which moves on to the next.
  __device__ __forceinline__ void wait(State& state) {
    ptx::mbarrier_wait_parity(&barrier, state.phase);
    state.advance();
  }
};

}  // namespace fovea::pipe
