// Named barriers for groups of threads within a block: GroupBarrier, and OrderedBarrier, with which
// warpgroups take turns.
#pragma once

#include <cstdint>

#include "kernels/ptx/warp.cuh"

namespace fovea::pipe {

/// A barrier for one group of a block's threads. Group 0 has barrier 1, because __syncthreads()
/// uses barrier 0.
template <int kThreads>
class GroupBarrier {
 public:
  __device__ __forceinline__ explicit GroupBarrier(std::uint32_t group) : id_(1 + group) {}
  /// Waits until `kThreads` threads have called sync() or arrive().
  __device__ __forceinline__ void sync() const { ptx::bar_sync(id_, kThreads); }
  /// Counts this thread without waiting.
  __device__ __forceinline__ void arrive() const { ptx::bar_arrive(id_, kThreads); }

 private:
  std::uint32_t id_;
};

/// Lets warpgroups take turns, so that the products of one overlap with the softmax of the others.
/// The 128 threads of a group wait at its barrier, and the 128 threads of the previous group arrive
/// at it to pass the turn. The order of the groups never changes.
template <int kGroups>
class OrderedBarrier {
 public:
  /// Group 0 has the first turn.
  __device__ __forceinline__ explicit OrderedBarrier(int group) : group_(group) {
    if (group == kGroups - 1) {
      pass();
    }
  }
  __device__ __forceinline__ void wait() const { GroupBarrier<256>(group_).sync(); }
  __device__ __forceinline__ void pass() const {
    GroupBarrier<256>((group_ + 1) % kGroups).arrive();
  }

 private:
  int group_;
};

}  // namespace fovea::pipe
