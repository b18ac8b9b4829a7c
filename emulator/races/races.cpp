// Happens-before race detector: vector clocks per warp and channel. races.hpp has the algorithm.
#include "emulator/races/races.hpp"

#include <algorithm>
#include <utility>

#include "fovea_emulator/error.hpp"

namespace emu::races {

// Merges two lists of ranges: sorts them by their beginnings, then joins those that touch.
void EndedGrids::add(const EndedGrids& others) {
  ranges_.insert(ranges_.end(), others.ranges_.begin(), others.ranges_.end());
  std::ranges::sort(ranges_, {}, &Range::first);
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[i].first <= ranges_[last].end) {
      ranges_[last].end = std::max(ranges_[last].end, ranges_[i].end);
    } else {
      ranges_[++last] = ranges_[i];
    }
  }
  ranges_.resize(std::min(ranges_.size(), last + 1));
}

// Clusters are numbered as they begin, so a grid's parties are a range from `first` on. A dependent
// grid begins when every block of the previous grid has released it: every grid that had ended
// before one of these releases has ended by then, but the previous grid may still run.
std::uint32_t RunRaces::begin_grid(bool is_dependent) {
  Grid grid{.first = static_cast<Party>(records_.size() + 1) << kActorBits};
  if (!is_dependent || grids_.empty()) {
    grid.ended_at_begin.add(kNoParty, grid.first);
  } else {
    const Grid& previous = grids_.back();
    grid.ended_at_begin =
        previous.has_released_after_wait ? previous.ended_after_wait : previous.ended_at_begin;
  }
  grids_.push_back(std::move(grid));
  return static_cast<std::uint32_t>(grids_.size());
}

void RunRaces::release(std::uint32_t grid, bool has_waited) {
  Grid& state = grids_.at(grid - 1);
  state.has_released_after_wait = state.has_released_after_wait || has_waited;
}

// After a wait the previous grid has ended, and with it the grids that had ended before its own
// end. If none of its threads has waited, the grid before it may still run.
void RunRaces::wait(std::uint32_t grid) {
  Grid& state = grids_.at(grid - 1);
  if (std::exchange(state.has_waited, true)) {
    return;
  }
  state.ended_after_wait = state.ended_at_begin;
  if (grid > 1) {
    const Grid& previous = grids_[grid - 2];
    state.ended_after_wait.add(previous.first, state.first);
    state.ended_after_wait.add(previous.has_waited ? previous.ended_after_wait
                                                   : previous.ended_at_begin);
  }
}

std::uint32_t RunRaces::add_cluster(Record record) {
  records_.push_back(std::move(record));
  if (records_.size() >= std::size_t{1} << (32 - kActorBits)) {
    throw Error("the run has too many clusters for the race detector");
  }
  return static_cast<std::uint32_t>(records_.size());
}

ClusterRaces::ClusterRaces(RunRaces& run, RunRaces::Record record, std::uint32_t grid)
    : run_(run),
      grid_(grid),
      warps_(record.warps),
      number_(0),
      actors_(1 + static_cast<Actor>(record.blocks.size()) * record.warps),
      warp_states_(record.blocks.size() * record.warps) {
  number_ = run_.add_cluster(std::move(record));
  for (Actor warp = 1; warp <= warp_states_.size(); ++warp) {
    advance(warp);
  }
}

// Generic accesses see all generic writes that happen before: both clocks are the same.
View ClusterRaces::view(Actor warp, std::uint32_t operation, bool is_read_only, Scope scope) const {
  const Warp& warp_state = state(warp);
  const EndedGrids* const ended = &this->ended(warp_state.order.generic);
  return {.access = {.party = party_of(warp),
                     .epoch = epoch(warp),
                     .origin = pack_origin(operation, warp, false, scope)},
          .warp = warp,
          .prior_accesses = &warp_state.order.generic,
          .visible_writes = &warp_state.order.generic,
          .fragments = warp_state.fragments.current() != 0 ? &warp_state.fragments : nullptr,
          .lane_releases = lane_releases(),
          .ended = ended,
          .ended_with_visible_writes = ended,
          .ended_at_begin = &run_.ended(grid_, false),
          .others = warp_state.order.others.get(),
          .visible_others = warp_state.order.others.get(),
          .block_warps = warps_,
          .keeps_all_readers = run_.rules().orders_clusters,
          .is_read_only = is_read_only};
}

// Uses an epoch that no clock ever covers: only settle() makes the copy visible.
View ClusterRaces::copy_view(Actor warp, std::uint32_t operation) {
  View copy = view(warp, operation);
  copy.access.party = party_of(channel(warp, GroupKind::kCopy));
  copy.access.epoch = kNeverBefore;
  return copy;
}

View ClusterRaces::copy_source_view(Actor warp, std::uint32_t operation) {
  View source = copy_view(warp, operation);
  source.access.epoch = committed(warp, GroupKind::kCopy) + 1;
  return source;
}

// The asynchronous proxy sees the order of the warp that starts the access, but only those generic
// writes that a proxy fence has covered (async_shared, async_global).
View ClusterRaces::proxy_view(Actor warp, std::uint32_t operation, Actor channel,
                              std::uint32_t epoch, bool is_shared) const {
  const Order& order = state(warp).order;
  const Clock& written = is_shared ? order.async_shared : order.async_global;
  return {.access = {.party = party_of(channel),
                     .epoch = epoch,
                     .origin = pack_origin(operation, warp, true)},
          .warp = warp,
          .prior_accesses = &order.generic,
          .visible_writes = &written,
          .lane_releases = lane_releases(),
          .ended = &ended(order.generic),
          .ended_with_visible_writes = &ended(written),
          .ended_at_begin = &run_.ended(grid_, false),
          .others = order.others.get(),
          .visible_others = is_shared ? nullptr : order.async_others.get(),
          .block_warps = warps_,
          .keeps_all_readers = run_.rules().orders_clusters};
}

View ClusterRaces::async_view(Actor warp, std::uint32_t operation, GroupKind kind, bool is_shared) {
  const Actor actor = channel(warp, kind);
  return proxy_view(warp, operation, actor, committed(warp, kind) + 1, is_shared);
}

View ClusterRaces::async_view(Actor warp, std::uint32_t operation, const MbarrierSync& mbarrier,
                              bool is_shared) const {
  return proxy_view(warp, operation, mbarrier.channel, mbarrier.phases + 1, is_shared);
}

Access ClusterRaces::settled_access(Actor warp, std::uint32_t operation) const {
  return view(warp, operation).access;
}

void ClusterRaces::release_copies(Actor warp, MbarrierSync& mbarrier, std::uint32_t last) {
  mbarrier.sync_point.released.generic.raise(channel(warp, GroupKind::kCopy), last);
}

void ClusterRaces::arrive(Actor warp, SyncPoint& sync_point) {
  fence_tensor_if_implied(warp);
  sync_point.released.join(state(warp).order);
  state(warp).released = epoch(warp);
  advance(warp);
}

// Order in global memory is that of the whole warp, whose lanes run in step.
void ClusterRaces::arrive_lanes(Actor warp, SyncPoint& sync_point, Lanes lanes) {
  fence_tensor_if_implied(warp);
  Order released = state(warp).order;
  const Actor channel = lane_releases_.channel(warp, lanes, [&] { return add_channel(); });
  for (Clock* const clock : {&released.generic, &released.async_shared}) {
    clock->raise(channel, clock->at(warp));
    clock->lower(warp, state(warp).synced);
  }
  sync_point.released.join(released);
  advance(warp);
}

void ClusterRaces::sync_lanes(Actor warp, bool is_by_arrivals) {
  Warp& warp_state = state(warp);
  if (is_by_arrivals) {
    warp_state.synced = std::max(warp_state.synced, warp_state.released);
  } else {
    warp_state.synced = epoch(warp);
    advance(warp);
  }
}

void ClusterRaces::arrive_relaxed(Actor warp, SyncPoint& sync_point) {
  fence_tensor_if_implied(warp);
  sync_point.released.join_relaxed(state(warp).order);
}

void ClusterRaces::arrive_relaxed_at_cluster(Actor warp, SyncPoint& sync_point) {
  if (!run_.rules().ordered_ends) {
    sync_point.released.before_end.join(state(warp).order.generic);
    advance(warp);
  }
  arrive_relaxed(warp, sync_point);
}

void ClusterRaces::wait(Actor warp, const SyncPoint& sync_point) {
  state(warp).order.join(sync_point.acquired);
}

// Acquires no accesses of threads. Operations that tensor cores have completed no longer read their
// sources, so their buffers may be filled again.
void ClusterRaces::wait_relaxed(Actor warp, const SyncPoint& sync_point) {
  Order& order = state(warp).order;
  order.join_relaxed(sync_point.acquired);
  order.generic.join(sync_point.acquired.tensor_ended);
}

void ClusterRaces::release(SyncPoint& sync_point) {
  for (const Actor warp : sync_point.waiting) {
    Order& order = state(warp).order;
    order.join(sync_point.released);
    if (order.fences != nullptr) {
      order.join(Order(order.fences->observed_by_atomics));
    }
  }
  sync_point.waiting.clear();
  sync_point.released.clear();
}

void ClusterRaces::init(Actor warp, std::uint32_t operation, MbarrierSync& mbarrier) {
  if (mbarrier.channel == 0) {
    mbarrier.channel = add_channel();
  }
  mbarrier.init = view(warp, operation).access;
  if (!run_.rules().init_fences) {
    fence_init(warp);
  }
}

// fence.mbarrier_init covers the initialisation for both proxies; fence.proxy.async for the
// asynchronous one.
bool ClusterRaces::is_initialized(Actor warp, const MbarrierSync& mbarrier, bool is_async) const {
  const Order& order = state(warp).order;
  const Actor actor = actor_of(mbarrier.init.party);
  const Clock& clock = is_async ? order.async_shared : order.generic;
  return comes_before(mbarrier.init, clock) || mbarrier.init.epoch <= order.init.at(actor);
}

// Makes all generic writes that happen before visible to the asynchronous proxy.
void ClusterRaces::fence_async(Actor warp, bool is_shared, bool is_global) {
  Order& order = state(warp).order;
  if (is_shared) {
    order.async_shared.join(order.generic);
  }
  if (is_global) {
    order.cover_async_global();
  }
  advance(warp);
}

void ClusterRaces::fence_init(Actor warp) {
  state(warp).order.init.raise(warp, epoch(warp));
  advance(warp);
}

// Joins the clocks of all warps of the block at their ends.
ClusterRaces::BlockEnd ClusterRaces::end_of_block(std::uint32_t rank, bool with_stores) const {
  BlockEnd end{.lane_releases = lane_releases()};
  for (std::uint32_t i = 0; i < warps_; ++i) {
    const Warp& warp_state = state(warp(rank, i));
    end.prior_accesses.join(warp_state.order.generic);
    end.prior_accesses.join(warp_state.order.before_end);
  }
  for (std::uint32_t i = 0; i < warps_; ++i) {
    const auto& channels = state(warp(rank, i)).channels;
    end.prior_accesses.raise(channels[static_cast<std::size_t>(GroupKind::kCopy)], kNeverBefore);
    if (!with_stores) {
      end.prior_accesses.raise(channels[static_cast<std::size_t>(GroupKind::kBulkRead)],
                               kNeverBefore);
    }
  }
  return end;
}

// Sets component kGridWait of the clocks. Synchronisation carries it to other threads, which then
// count as having waited, too.
void ClusterRaces::wait_for_grid(Actor warp) {
  run_.wait(grid_);
  Order& order = state(warp).order;
  for (Clock* const clock : {&order.generic, &order.async_shared, &order.async_global}) {
    clock->raise(kGridWait, 1);
  }
}

void ClusterRaces::release_grid(Actor warp) {
  run_.release(grid_, state(warp).order.generic.at(kGridWait) != 0);
}

void ClusterRaces::release_grid_at_end(std::uint32_t rank) {
  for (std::uint32_t i = 0; i < warps_; ++i) {
    release_grid(warp(rank, i));
  }
}

std::uint32_t ClusterRaces::commit(Actor warp, GroupKind kind) {
  return ++state(warp).committed.at(static_cast<std::size_t>(kind));
}

std::uint32_t ClusterRaces::committed(Actor warp, GroupKind kind) const {
  return state(warp).committed.at(static_cast<std::size_t>(kind));
}

void ClusterRaces::wait_groups(Actor warp, GroupKind kind, std::uint32_t last) {
  if (last > 0) {
    state(warp).order.generic.raise(channel(warp, kind), last);
  }
}

// Starts an epoch of the warp for the fragment of its lanes that runs next (fragments.hpp).
void ClusterRaces::run_fragment(Actor warp, Fragments::Id fragment) {
  Warp& warp_state = state(warp);
  if (warp_state.fragments.current() != fragment) {
    advance(warp);
    warp_state.fragments.run(fragment, epoch(warp));
  }
}

void ClusterRaces::meet_lanes(Actor warp) {
  Warp& warp_state = state(warp);
  if (warp_state.fragments.current() != 0) {
    advance(warp);
    warp_state.fragments.meet(epoch(warp));
  }
}

Actor ClusterRaces::add_channel() {
  if (actors_ >= kMaxActors) {
    throw Error(
        "a cluster has too many mbarriers and groups of asynchronous work for the race detector");
  }
  return actors_++;
}

// Returns the channel for a warp's groups. The warps of a warpgroup share the one for their
// products.
Actor ClusterRaces::channel(Actor warp, GroupKind kind) {
  constexpr Actor kWarpgroup = 4;
  const auto number = static_cast<std::size_t>(kind);
  const Actor in_block = (warp - 1) % warps_;
  const Actor owner = kind == GroupKind::kProduct ? warp - in_block % kWarpgroup : warp;
  Actor& channel_of_group = state(owner).channels.at(number);
  if (channel_of_group == 0) {
    channel_of_group = add_channel();
  }
  return channel_of_group;
}

}  // namespace emu::races
