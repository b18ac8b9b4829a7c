// Happens-before race detector: vector clocks per warp and channel.
//
// Actors. Every access belongs to an actor and to one of its epochs. A warp is an actor. So is a
// channel: asynchronous copies and products that complete together, such as those that an
// mbarrier's phases count, or a warp's groups of one kind. An epoch of a channel is a phase or a
// group.
//
// Clocks. Each warp has vector clocks (Order). clock[actor] == e says that all accesses of the
// actor up to epoch e happen before what the warp does next.
//  - Release (arrive, fence): the warp's clocks are joined into a SyncPoint. The warp then begins a
//    new epoch, so that the release does not cover its later accesses.
//  - Acquire (wait): the clocks of the SyncPoint are joined into the warp's.
//  - Fences and strong accesses to memory: a release leaves the warp's clocks at the location,
//  where
//    an acquire joins them (order.hpp has those of other clusters).
//  - Completion: the end of a phase or group raises the channel's component in the clocks of the
//    waiting warps.
//
// Shadow memory (SharedShadow, GlobalShadow, TensorShadow) keeps the last write of each cell and
// the reads since, as FastTrack does. A new access conflicts with an earlier one, one of them a
// write, whose epoch the warp's clock does not cover. The outcome depends only on the
// synchronisation, not on the schedule, so that one run finds the races of every schedule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/races/access.hpp"
#include "emulator/races/fragments.hpp"
#include "emulator/races/lane_releases.hpp"
#include "emulator/races/order.hpp"
#include "emulator/races/pages.hpp"
#include "emulator/races/tensor_shadow.hpp"

namespace emu::races {

/// Synchronisation point: holds what arriving threads release and waiting threads acquire.
struct SyncPoint {
  Order released{};
  Order acquired{};

  std::vector<Actor> waiting{};  // warps that wait at the point and are released together

  /// Completes the phase: threads that wait from now on acquire what was released.
  void complete() {
    acquired.join(released);
    released.clear();
  }
};

/// An mbarrier, with the channel of the copies that it counts; each of its phases is an epoch of
/// the channel.
struct MbarrierSync {
  Actor channel = 0;
  std::uint32_t phases = 0;  // number of completed phases
  SyncPoint sync_point{};
  Access init{};

  void complete() {
    ++phases;
    sync_point.complete();
    sync_point.acquired.generic.raise(channel, phases);
  }
};

/// Release of a thread's order at a location in memory, which threads within the scope may acquire.
struct Release {
  Scope scope = Scope::kNone;
  std::uint32_t grid = 0;
  std::uint32_t cluster = 0;
  std::uint32_t block = 0;  // rank in the cluster
  std::shared_ptr<const Order> order{};
};

/// What the last strong write of a location releases, and, if it was an atomic operation, the
/// writes that it continues.
using Location = std::vector<Release>;

/// Locations of strong writes in one allocation or in a block's shared memory, by word.
class Locations {
 public:
  [[nodiscard]] bool is_empty() const { return locations_.empty(); }
  [[nodiscard]] Location* find(std::uint64_t offset) {
    const auto location = locations_.find(offset >> kCellShift);
    return location == locations_.end() ? nullptr : &location->second;
  }
  Location& get(std::uint64_t offset) { return locations_[offset >> kCellShift]; }

 private:
  std::unordered_map<std::uint64_t, Location> locations_;
};

/// How a strong operation on memory orders other accesses.
struct StrongAccess {
  Scope scope = Scope::kNone;
  bool acquires = false;   // .acquire
  bool releases = false;   // .release
  bool is_atomic = false;  // a read-modify-write operation
};

/// Kinds of asynchronous work that is committed and waited for in groups.
enum class GroupKind : std::uint8_t {
  kCopy,       // cp.async
  kBulkRead,   // cp.async.bulk from shared memory: reads of the source
  kBulkWrite,  // cp.async.bulk from shared memory: writes of the destination
  kProduct,    // wgmma; shared by the four warps of a warpgroup
};
constexpr std::size_t kGroupKinds = 4;

/// What a run requires beside barriers and waits.
struct RunRules {
  bool tensor_fences = true;  // tcgen05.fence for order in tensor memory
  bool init_fences = true;    // fence.mbarrier_init or fence.proxy.async before other uses
  bool ordered_ends = true;   // more than a relaxed arrival at the cluster's barrier before ends
  /// Some kernel of the run has instructions by which threads of one cluster can be ordered after
  /// those of another.
  bool orders_clusters = true;
};

/// Clusters and grids of a run, in the order in which they began.
class RunRaces {
 public:
  /// Description of a cluster for findings.
  struct Record {
    const void* grid = nullptr;  // pointer that the caller passed in
    std::vector<std::array<std::uint32_t, 3>> blocks{};
    std::uint32_t warps = 0;  // number of warps per block
  };

  explicit RunRaces(RunRules rules = {}) : rules_(rules) {}

  /// Begins a grid and returns its number, from 1. All clusters of a grid must be added before the
  /// next grid begins. If the grid is not dependent, all earlier grids have ended.
  std::uint32_t begin_grid(bool is_dependent);
  /// Records that a block of the grid has ended or allowed the next grid to start; `has_waited`
  /// says whether it has waited for the previous grid.
  void release(std::uint32_t grid, bool has_waited);
  /// Records a griddepcontrol.wait: for threads that acquire this wait, the previous grid has
  /// ended.
  void wait(std::uint32_t grid);
  std::uint32_t add_cluster(Record record);  // returns the cluster's number

  [[nodiscard]] const RunRules& rules() const { return rules_; }
  [[nodiscard]] const Record& record_of(const Access& access) const {
    return records_.at(cluster_of(access.party) - 1);
  }
  /// Grids that had ended for certain, in every schedule, when the grid began or, if `has_waited`,
  /// when it has waited.
  [[nodiscard]] const EndedGrids& ended(std::uint32_t grid, bool has_waited) const {
    const Grid& state = grids_.at(grid - 1);
    return has_waited ? state.ended_after_wait : state.ended_at_begin;
  }

 private:
  struct Grid {
    Party first = kNoParty;
    EndedGrids ended_at_begin{};
    EndedGrids ended_after_wait{};
    bool has_waited = false;  // some warp of the grid has waited
    bool has_released_after_wait =
        false;  // some block has waited, or acquired a wait, and then released the next grid
  };

  RunRules rules_;
  std::deque<Record> records_;
  std::deque<Grid> grids_;
};

/// Clocks of a cluster's warps. Warps are numbered from 1 over all its blocks.
class ClusterRaces {
 public:
  ClusterRaces(RunRaces& run, RunRaces::Record record, std::uint32_t grid);

  [[nodiscard]] Actor warp(std::uint32_t rank, std::uint32_t index) const {
    return 1 + rank * warps_ + index;
  }
  [[nodiscard]] const RunRaces& run() const { return run_; }

  /// View of an access that a warp's operation makes itself.
  [[nodiscard]] View view(Actor warp, std::uint32_t operation, bool is_read_only = false,
                          Scope scope = Scope::kNone) const;
  /// View of a cp.async's write, which happens before no other access until it is settled.
  [[nodiscard]] View copy_view(Actor warp, std::uint32_t operation);
  /// View of a cp.async's read; commit() counts each cp.async like a group of its own.
  [[nodiscard]] View copy_source_view(Actor warp, std::uint32_t operation);
  /// View of an access through the asynchronous proxy, by work that the warp starts now: in its
  /// open group of the kind, or in the current phase of an mbarrier. `is_shared` says whether the
  /// access is to shared memory.
  [[nodiscard]] View async_view(Actor warp, std::uint32_t operation, GroupKind kind,
                                bool is_shared);
  [[nodiscard]] View async_view(Actor warp, std::uint32_t operation, const MbarrierSync& mbarrier,
                                bool is_shared) const;
  /// Access that replaces a copy's write after the wait for it: as if the warp had written now.
  [[nodiscard]] Access settled_access(Actor warp, std::uint32_t operation) const;
  /// Access that replaces a copy's write when an mbarrier counts its end.
  [[nodiscard]] Access counted_access(Actor warp, std::uint32_t operation,
                                      const MbarrierSync& mbarrier) const {
    return {.party = party_of(mbarrier.channel),
            .epoch = mbarrier.phases + 1,
            .origin = pack_origin(operation, warp, false)};
  }
  /// Releases the end of the reads of a warp's copies, up to `last`, at an mbarrier.
  void release_copies(Actor warp, MbarrierSync& mbarrier, std::uint32_t last);

  void arrive(Actor warp, SyncPoint& sync_point);
  /// Releases, of the accesses to shared memory since the warp's lanes synchronised, those of these
  /// lanes only.
  void arrive_lanes(Actor warp, SyncPoint& sync_point, Lanes lanes);
  /// Records that the warp's lanes have synchronised with each other; `is_by_arrivals`: up to the
  /// last arrival of all of them.
  void sync_lanes(Actor warp, bool is_by_arrivals);
  /// Whether an access by a warp, or by some lanes of it, happens before, by the clock.
  [[nodiscard]] bool comes_before(const Access& access, const Clock& clock) const {
    return access.epoch <= clock.at(actor_of(access.party)) ||
           lane_releases_.is_released(access, clock);
  }
  /// Releases what fence.mbarrier_init and, for tensor memory, tcgen05.fence have covered, and no
  /// other accesses.
  void arrive_relaxed(Actor warp, SyncPoint& sync_point);
  /// Arrives likewise at the cluster's barrier, behind which blocks may end if the run lets them.
  void arrive_relaxed_at_cluster(Actor warp, SyncPoint& sync_point);
  void wait(Actor warp, const SyncPoint& sync_point);
  /// Acquires only what arrive_relaxed releases.
  void wait_relaxed(Actor warp, const SyncPoint& sync_point);
  /// Completes a phase for the warps in `waiting`, which alone acquire it.
  void release(SyncPoint& sync_point);

  void init(Actor warp, std::uint32_t operation, MbarrierSync& mbarrier);
  /// Whether the mbarrier's initialisation happens before the warp's use of it, or before the use
  /// by asynchronous work that the warp starts.
  [[nodiscard]] bool is_initialized(Actor warp, const MbarrierSync& mbarrier, bool is_async) const;

  /// Record a fence, and a strong read and write of a location. A fence of a scope, or a release,
  /// covers all that happens before; a strong write behind the fence releases that, and a fence
  /// behind a strong read acquires what was released there.
  void fence(Actor warp, Scope scope, bool acquires, bool releases);
  void read_strong(Actor warp, const StrongAccess& access, const Location& location);
  void write_strong(Actor warp, const StrongAccess& access, Location& location);
  /// Whether a strong write that is no release itself may release something.
  [[nodiscard]] bool has_fences(Actor warp) const { return state(warp).order.fences != nullptr; }

  void fence_async(Actor warp, bool is_shared, bool is_global);
  void fence_init(Actor warp);
  /// State at a block's end. All accesses to its shared memory must happen before it, except those
  /// of cp.async and, unless `with_stores`, the reads of bulk stores.
  struct BlockEnd {
    Clock prior_accesses{};
    const LaneReleases* lane_releases = nullptr;
    [[nodiscard]] View view() const {
      return {.prior_accesses = &prior_accesses,
              .visible_writes = &prior_accesses,
              .lane_releases = lane_releases};
    }
  };
  [[nodiscard]] BlockEnd end_of_block(std::uint32_t rank, bool with_stores) const;

  /// Acquires the end of the previous grid, and of all grids that had ended for certain before it.
  void wait_for_grid(Actor warp);
  /// Allows the next grid to start, for the warp's block.
  void release_grid(Actor warp);
  /// Allows the next grid to start, at the end of the block with this rank.
  void release_grid_at_end(std::uint32_t rank);

  /// Commits the open group and returns its number, from 1.
  std::uint32_t commit(Actor warp, GroupKind kind);
  [[nodiscard]] std::uint32_t committed(Actor warp, GroupKind kind) const;
  /// Acquires the completion of the groups up to `last`.
  void wait_groups(Actor warp, GroupKind kind, std::uint32_t last);

  /// Record that lanes of a warp diverge, reconverge and run.
  Fragments::Id create_fragment(Actor warp, Fragments::Id parent) {
    return state(warp).fragments.create(parent);
  }
  void join_fragment(Actor warp, Fragments::Id fragment, Fragments::Id into) {
    state(warp).fragments.join(fragment, into);
  }
  void run_fragment(Actor warp, Fragments::Id fragment);
  /// Records that all lanes of a warp have met, apart as they may be.
  void meet_lanes(Actor warp);

  // Tensor memory: a warp's loads and its stores each have a channel, and so have the tensor core
  // operations that each of its lanes issues.

  /// View of the warp's next tcgen05.ld or st.
  [[nodiscard]] TensorView tensor_move(Actor warp, std::uint32_t operation, bool is_load);
  /// Acquires the completion of all loads, or stores, so far.
  void wait_for_tensor_moves(Actor warp, bool are_loads);
  /// Epoch of a tcgen05.mma, cp or commit in the channel of the lane that issues it.
  struct TensorIssue {
    Actor channel = 0;
    std::uint32_t epoch = 0;
  };
  TensorIssue issue_tensor(Actor warp, int lane);
  [[nodiscard]] TensorView tensor_view(Actor warp, std::uint32_t operation,
                                       const TensorIssue& issue, std::uint64_t form) const;
  /// View of the operation's reads of shared memory.
  [[nodiscard]] View tensor_shared_view(Actor warp, std::uint32_t operation,
                                        const TensorIssue& issue) const {
    return proxy_view(warp, operation, issue.channel, issue.epoch, true);
  }
  /// View of the end of an allocation, which takes effect at once.
  [[nodiscard]] TensorView tensor_end(Actor warp, std::uint32_t operation) const;
  void tensor_fence_before(Actor warp);
  void tensor_fence_after(Actor warp);
  /// Clocks that a tcgen05.commit releases when the operations that its lane has issued before it
  /// have ended.
  [[nodiscard]] Order tensor_commit(Actor warp, const TensorIssue& issue) const;

 private:
  struct Warp {
    Order order{};
    Fragments fragments{};
    std::array<Actor, kGroupKinds> channels{};  // channel for each kind of group; 0: none yet
    std::array<std::uint32_t, kGroupKinds> committed{};  // number of committed groups
    /// Operations on tensor memory that have ended or been issued, as the warp sees them: its own,
    /// and those of others that fences have carried.
    Clock tensor_ended{};
    Clock tensor_issued{};
    /// What happens before the last products and copies that were issued.
    Clock before_issues{};
    /// Last epochs whose accesses by any lane happen before all that follow by other lanes, and
    /// that all lanes have released.
    std::uint32_t synced = 0;
    std::uint32_t released = 0;
    std::array<TensorIssue, 2> tensor_moves{};   // the last store and the last load
    std::map<int, TensorIssue> tensor_issues{};  // last issue of each lane
  };

  Warp& state(Actor warp) { return warp_states_[warp - 1]; }
  [[nodiscard]] const Warp& state(Actor warp) const { return warp_states_[warp - 1]; }
  [[nodiscard]] std::uint32_t epoch(Actor warp) const { return state(warp).order.generic.at(warp); }
  // Begins a new epoch of the warp, which threads that acquired the warp's earlier releases do not
  // cover.
  void advance(Actor warp) { state(warp).order.generic.raise(warp, epoch(warp) + 1); }
  [[nodiscard]] Party party_of(Actor actor) const { return number_ << kActorBits | actor; }
  // Acts as both tensor fences if the run does not require them.
  void fence_tensor_if_implied(Actor warp);
  Actor add_channel();
  Actor channel(Actor warp, GroupKind kind);
  [[nodiscard]] const EndedGrids& ended(const Clock& clock) const {
    return run_.ended(grid_, clock.at(kGridWait) != 0);
  }
  [[nodiscard]] std::uint32_t block_of(Actor warp) const { return (warp - 1) / warps_; }
  void release_at(Location& location, Actor warp, Scope scope,
                  const std::shared_ptr<const Order>& order) const;
  void acquire_from(Order& order, const Release& release) const;
  /// Copies what a release at a location carries.
  [[nodiscard]] std::shared_ptr<const Order> released_order(Actor warp) const;
  [[nodiscard]] const LaneReleases* lane_releases() const {
    return lane_releases_.is_empty() ? nullptr : &lane_releases_;
  }
  [[nodiscard]] View proxy_view(Actor warp, std::uint32_t operation, Actor channel,
                                std::uint32_t epoch, bool is_shared) const;

  RunRaces& run_;
  std::uint32_t grid_;
  std::uint32_t warps_;  // number of warps per block
  std::uint32_t number_;
  Actor actors_;
  LaneReleases lane_releases_;
  std::vector<Warp> warp_states_;
};

}  // namespace emu::races
