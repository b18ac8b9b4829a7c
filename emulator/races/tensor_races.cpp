// Happens-before race detector for tensor memory: clocks of operations that have ended or been
// issued.
//
// Synchronisation of threads carries these clocks, but only from a
// tcgen05.fence::before_thread_sync, or a tcgen05.commit, to a fence::after_thread_sync. A warp
// knows its own operations without fences.
//
// A commit arrives when products have ended. These began after their sources were ready, so a
// thread that waits for the commit also acquires the copies that the issuing thread had waited for
// and the writes that a proxy fence had covered, but not the issuing thread's own accesses. Ring
// buffers rely on this order to refill their stages.
#include "emulator/races/races.hpp"

namespace emu::races {

TensorView ClusterRaces::tensor_move(Actor warp, std::uint32_t operation, bool is_load) {
  fence_tensor_if_implied(warp);
  Warp& warp_state = state(warp);
  TensorIssue& last = warp_state.tensor_moves.at(is_load ? 1 : 0);
  if (last.channel == 0) {
    last.channel = add_channel();
  }
  ++last.epoch;
  return {.access = {.party = party_of(last.channel),
                     .epoch = last.epoch,
                     .origin = pack_origin(operation, warp, true)},
          .ended = &warp_state.tensor_ended,
          .unfenced = {&warp_state.order.generic, &warp_state.order.tensor_ended}};
}

void ClusterRaces::wait_for_tensor_moves(Actor warp, bool are_loads) {
  Warp& warp_state = state(warp);
  if (const TensorIssue& last = warp_state.tensor_moves.at(are_loads ? 1 : 0); last.channel != 0) {
    warp_state.tensor_ended.raise(last.channel, last.epoch);
    warp_state.order.generic.raise(last.channel, last.epoch);
  }
}

ClusterRaces::TensorIssue ClusterRaces::issue_tensor(Actor warp, int lane) {
  fence_tensor_if_implied(warp);
  Warp& warp_state = state(warp);
  TensorIssue& last = warp_state.tensor_issues[lane];
  if (last.channel == 0) {
    last.channel = add_channel();
  }
  ++last.epoch;
  warp_state.tensor_issued.raise(last.channel, last.epoch);
  warp_state.before_issues.join_from(warp_state.order.generic,
                                     static_cast<Actor>(warp_states_.size() + 1));
  warp_state.before_issues.join(warp_state.order.async_shared);
  return last;
}

TensorView ClusterRaces::tensor_view(Actor warp, std::uint32_t operation, const TensorIssue& issue,
                                     std::uint64_t form) const {
  const Warp& warp_state = state(warp);
  return {.access = {.party = party_of(issue.channel),
                     .epoch = issue.epoch,
                     .origin = pack_origin(operation, warp, true)},
          .form = form,
          .ended = &warp_state.tensor_ended,
          .issued = &warp_state.tensor_issued,
          .unfenced = {&warp_state.order.generic, &warp_state.order.tensor_ended}};
}

TensorView ClusterRaces::tensor_end(Actor warp, std::uint32_t operation) const {
  const Warp& warp_state = state(warp);
  return {.access = view(warp, operation).access,
          .ended = &warp_state.tensor_ended,
          .unfenced = {&warp_state.order.generic, &warp_state.order.tensor_ended},
          .needs_fences = false};
}

void ClusterRaces::tensor_fence_before(Actor warp) {
  Warp& warp_state = state(warp);
  warp_state.order.tensor_ended.join(warp_state.tensor_ended);
  warp_state.order.tensor_issued.join(warp_state.tensor_issued);
}

void ClusterRaces::tensor_fence_after(Actor warp) {
  Warp& warp_state = state(warp);
  warp_state.tensor_ended.join(warp_state.order.tensor_ended);
  warp_state.tensor_issued.join(warp_state.order.tensor_issued);
}

void ClusterRaces::fence_tensor_if_implied(Actor warp) {
  if (!run_.rules().tensor_fences) {
    tensor_fence_before(warp);
    tensor_fence_after(warp);
  }
}

Order ClusterRaces::tensor_commit(Actor warp, const TensorIssue& issue) const {
  const Warp& warp_state = state(warp);
  Order released;
  released.generic = warp_state.before_issues;
  released.generic.raise(issue.channel, issue.epoch);
  released.async_shared = warp_state.order.async_shared;
  released.tensor_ended = warp_state.tensor_ended;
  released.tensor_ended.raise(issue.channel, issue.epoch);
  released.tensor_issued = warp_state.tensor_issued;
  return released;
}

}  // namespace emu::races
