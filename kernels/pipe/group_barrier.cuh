// Named barriers of groups of threads within a block: GroupBarrier, and OrderedBarrier, by which
// warpgroups take turns.
#pragma once

#include <cstdint>

#include "kernels/ptx/warp.cuh"

namespace fovea::pipe {

/// The barrier of a group of a block's threads: the groups' are 1 and on, since 0 is that of
/// __syncthreads().
template <int kThreads>
class GroupBarrier {
 public:
  __device__ __forceinline__ explicit GroupBarrier(std::uint32_t group) : id_(1 + group) {}
  /// Waits until `kThreads` threads have come or arrived.
  __device__ __forceinline__ void sync() const { ptx::bar_sync(id_, kThreads); }
  /// Counts this thread without waiting.
  __device__ __forceinline__ void arrive() const { ptx::bar_arrive(id_, kThreads); }

 private:
  std::uint32_t id_;
};

/// Turns of warpgroups, so that the products of one meet the softmax of the others: a group's
/// barrier is waited for by its 128 threads and passed on by the 128 of the group before it. Every
/// group takes its turns in the same order.
template <int kGroups>
class OrderedBarrier {
 public:
  /// The first turn is group 0's.
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
