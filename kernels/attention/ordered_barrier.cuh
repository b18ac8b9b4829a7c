// Turn: warpgroups that take turns, so that the products of one meet the softmax of the others.
#pragma once

#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

/// Named barriers 1 to kGroups: barrier 1 + g is the turn of group g, which its 128 threads wait
/// for and the 128 of the group before it pass on. Every group takes its turns in the same order.
template <int kGroups>
class OrderedBarrier {
 public:
  /// The first turn is group 0's.
  __device__ __forceinline__ explicit OrderedBarrier(int group) : group_(group) {
    if (group == kGroups - 1) {
      pass();
    }
  }
  __device__ __forceinline__ void wait() const { ptx::bar_sync(1 + group_, 256); }
  __device__ __forceinline__ void pass() const { ptx::bar_arrive(1 + (group_ + 1) % kGroups, 256); }

 private:
  int group_;
};

}  // namespace fovea::attention
