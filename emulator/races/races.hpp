// Happens-before race detector: vector clocks per warp and channel.
//
// Actors. Every access belongs to an actor and to one of its epochs. A warp is an actor. So is a
// channel: asynchronous copies and products that complete together, as an mbarrier whose phases
// count copies, or a warp's groups of one kind. An epoch of a channel is a phase or a group.
//
// Clocks. Each warp has vector clocks (Order). clock[actor] == e says that all accesses of the
// actor up to epoch e happen before what the warp does next.
//  - Release (arrive, fence): the warp's clocks are joined into a Meeting, and then the warp begins
//    a new epoch, so that what it does from now on is not covered by what it has told.
//  - Acquire (wait): the clocks of the Meeting are joined into the warp's.
//  - Completion: the end of a phase or group raises the channel's component for those who wait.
//
// Shadow memory (SharedShadow, GlobalShadow, TensorShadow) keeps the last write of each cell and
// the reads since, as FastTrack does. A new access conflicts with an earlier one, one of them a
// write, whose epoch the warp's clock does not cover. The outcome depends on what synchronises
// alone, not on the order of a schedule, so that one schedule finds races of all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "emulator/races/access.hpp"
#include "emulator/races/clock.hpp"
#include "emulator/races/fragments.hpp"
#include "emulator/races/tensor_shadow.hpp"

namespace emu::races {

/// A point of synchronisation: what those who arrive release, and what those who wait acquire.
struct Meeting {
  Order brought{};
  Order taken{};

  std::vector<Actor> waiting{};  // warps that have come and go on with the others

  /// Ends the phase: what was brought is there for those who wait from now on.
  void complete() {
    taken.join(brought);
    brought.clear();
  }
};

/// An mbarrier, with the channel of the copies that it counts: a phase is an epoch of it.
struct MbarrierMeeting {
  Actor channel = 0;
  std::uint32_t phases = 0;  // that have ended
  Meeting meeting{};
  Access init{};

  void complete() {
    ++phases;
    meeting.complete();
    meeting.taken.generic.raise(channel, phases);
  }
};

/// Kinds of asynchronous work that is committed and waited for in groups.
enum class GroupKind : std::uint8_t {
  kCopy,       // cp.async
  kBulkRead,   // cp.async.bulk from shared memory: its source
  kBulkWrite,  // and its destination
  kProduct,    // wgmma, of the four warps of a warpgroup
};
constexpr std::size_t kGroupKinds = 4;

/// Clusters of a run and their grids, in the order in which they began.
class RunRaces {
 public:
  /// What findings tell of a cluster.
  struct Record {
    const void* grid = nullptr;  // the caller's
    std::vector<std::array<std::uint32_t, 3>> blocks{};
    std::uint32_t warps = 0;  // of a block
  };

  explicit RunRaces(bool needs_tensor_fences = true) : needs_tensor_fences_(needs_tensor_fences) {}

  /// Begins a grid and returns its number, from 1 on. All clusters of a grid have been added when
  /// the next one begins. All grids before one that is not dependent have ended.
  std::uint32_t begin_grid(bool is_dependent);
  /// Notes that a block of the grid has let the next one start, or has ended; `has_waited`: for the
  /// previous grid.
  void release(std::uint32_t grid, bool has_waited);
  /// Notes a griddepcontrol.wait: the previous grid has ended, for those who know of this wait.
  void wait(std::uint32_t grid);
  std::uint32_t add_cluster(Record record);  // returns its number

  /// Whether what has ended in tensor memory must be told through tcgen05.fence.
  [[nodiscard]] bool needs_tensor_fences() const { return needs_tensor_fences_; }
  [[nodiscard]] const Record& record_of(const Access& access) const {
    return records_.at(cluster_of(access.party) - 1);
  }
  /// Grids that had ended when the grid began, whatever the schedule, or when it has waited.
  [[nodiscard]] const EndedGrids& ended(std::uint32_t grid, bool has_waited) const {
    const Grid& state = grids_.at(grid - 1);
    return has_waited ? state.after_wait : state.at_begin;
  }

 private:
  struct Grid {
    Party first = kNobody;
    EndedGrids at_begin{};
    EndedGrids after_wait{};
    bool has_waited = false;            // some warp of it
    bool has_released_waiting = false;  // some block, which knew of a wait
  };

  bool needs_tensor_fences_;
  std::deque<Record> records_;
  std::deque<Grid> grids_;
};

/// Clocks of a cluster's warps, which are counted over all its blocks from 1 on.
class ClusterRaces {
 public:
  ClusterRaces(RunRaces& run, RunRaces::Record record, std::uint32_t grid);

  [[nodiscard]] Actor warp(std::uint32_t rank, std::uint32_t index) const {
    return 1 + rank * warps_ + index;
  }
  [[nodiscard]] const RunRaces& run() const { return run_; }

  /// View of an access that a warp's operation makes itself.
  [[nodiscard]] View view(Actor warp, std::uint32_t operation, bool is_read_only = false) const;
  /// View of an atomic operation, which comes after all others of the cluster. Atomics are a
  /// channel of their own: who has synchronised with a warp knows of them up to the warp's last
  /// one.
  [[nodiscard]] View atomic_view(Actor warp, std::uint32_t operation);
  /// View of cp.async's write, which happens before nothing until it is settled.
  [[nodiscard]] View copy_view(Actor warp, std::uint32_t operation);
  /// View of what cp.async reads, in the warp's open group.
  [[nodiscard]] View copy_source_view(Actor warp, std::uint32_t operation);
  /// View of an access through the asynchronous proxy, by what the warp starts now: in its open
  /// group, or under an mbarrier, in its current phase. `is_shared`: to shared memory.
  [[nodiscard]] View async_view(Actor warp, std::uint32_t operation, GroupKind kind,
                                bool is_shared);
  [[nodiscard]] View async_view(Actor warp, std::uint32_t operation,
                                const MbarrierMeeting& mbarrier, bool is_shared) const;
  /// Access that takes a copy's place once it was waited for: as if the warp had written it now.
  [[nodiscard]] Access settled(Actor warp, std::uint32_t operation) const;

  void arrive(Actor warp, Meeting& meeting);
  /// Releases what fence.mbarrier_init has covered, and of tensor memory what tcgen05.fence has,
  /// and no other accesses.
  void arrive_relaxed(Actor warp, Meeting& meeting);
  void wait(Actor warp, const Meeting& meeting);
  /// Acquires no more than arrive_relaxed releases.
  void wait_relaxed(Actor warp, const Meeting& meeting);
  /// Ends a phase in which the warps that wait are known (`waiting`), and they alone acquire.
  void release(Meeting& meeting);

  void init(Actor warp, std::uint32_t operation, MbarrierMeeting& mbarrier);
  /// Whether the mbarrier's initialisation happens before what the warp does with it, or starts in
  /// the asynchronous proxy.
  [[nodiscard]] bool is_initialized(Actor warp, const MbarrierMeeting& mbarrier,
                                    bool is_async) const;

  void fence_async(Actor warp, bool is_shared, bool is_global);
  void fence_init(Actor warp);
  /// End of a block, before which all accesses to its shared memory must happen; but for cp.async,
  /// and for what its bulk stores read unless `with_stores`.
  struct BlockEnd {
    Clock before{};
    [[nodiscard]] View view() const { return {.before = &before, .before_as_written = &before}; }
  };
  [[nodiscard]] BlockEnd end_of_block(std::uint32_t rank, bool with_stores) const;

  /// Acquires the end of the previous grid, with all that had ended before it for sure.
  void wait_for_grid(Actor warp);
  /// Lets the next grid start, as far as the warp's block is concerned.
  void release_grid(Actor warp);
  /// The same at the end of the block with this rank.
  void release_grid_at_end(std::uint32_t rank);

  /// Ends the open group and returns its number, from 1 on.
  std::uint32_t commit(Actor warp, GroupKind kind);
  [[nodiscard]] std::uint32_t committed(Actor warp, GroupKind kind) const;
  /// Acquires the completion of the groups up to this one.
  void wait_groups(Actor warp, GroupKind kind, std::uint32_t last);

  /// Follow a warp's lanes: they diverge, reconverge, and run.
  Fragments::Id part(Actor warp, Fragments::Id parent) {
    return state(warp).fragments.part(parent);
  }
  void join(Actor warp, Fragments::Id fragment, Fragments::Id into) {
    state(warp).fragments.join(fragment, into);
  }
  void run_fragment(Actor warp, Fragments::Id fragment);

  // Tensor memory. What a warp loads and stores are channels of their own, and so is what each of
  // its lanes makes tensor cores do.

  /// View of the warp's next tcgen05.ld or st.
  [[nodiscard]] TensorView tensor_move(Actor warp, std::uint32_t operation, bool is_load);
  /// Acquires the end of all of them so far.
  void wait_for_tensor_moves(Actor warp, bool are_loads);
  /// Epoch of a tcgen05.mma, cp or commit in the channel of the lane that issues it.
  struct TensorIssue {
    Actor channel = 0;
    std::uint32_t epoch = 0;
  };
  TensorIssue issue_tensor(Actor warp, int lane);
  [[nodiscard]] TensorView tensor_view(Actor warp, std::uint32_t operation,
                                       const TensorIssue& issue, std::uint64_t form) const;
  /// View of what it reads of shared memory.
  [[nodiscard]] View tensor_shared_view(Actor warp, std::uint32_t operation,
                                        const TensorIssue& issue) const {
    return seen_by_async(warp, operation, issue.channel, issue.epoch, true);
  }
  /// View of the end of an allocation, which takes effect at once.
  [[nodiscard]] TensorView tensor_end(Actor warp, std::uint32_t operation) const;
  void tensor_fence_before(Actor warp);
  void tensor_fence_after(Actor warp);
  /// What a tcgen05.commit releases when all that its lane has issued before it has ended.
  [[nodiscard]] Order tensor_commit(Actor warp, const TensorIssue& issue) const;

 private:
  struct Warp {
    Order order{};
    Fragments fragments{};
    std::array<Actor, kGroupKinds> channels{};           // 0: none yet
    std::array<std::uint32_t, kGroupKinds> committed{};  // groups
    /// What has ended and been issued in tensor memory, as the warp's own accesses there see it:
    /// after its own, only what fences have carried.
    Clock tensor_ended{};
    Clock tensor_issued{};
    /// What happens before the last products and copies that were issued.
    Clock before_issues{};
    std::array<TensorIssue, 2> tensor_moves{};   // the last store, the last load
    std::map<int, TensorIssue> tensor_issues{};  // the last of each lane
  };

  Warp& state(Actor warp) { return warp_states_[warp - 1]; }
  [[nodiscard]] const Warp& state(Actor warp) const { return warp_states_[warp - 1]; }
  [[nodiscard]] std::uint32_t epoch(Actor warp) const { return state(warp).order.generic.at(warp); }
  // Begins an epoch, which those do not know who acquire what the warp has released.
  void advance(Actor warp) { state(warp).order.generic.raise(warp, epoch(warp) + 1); }
  [[nodiscard]] Party party_of(Actor actor) const { return number_ << kActorBits | actor; }
  // Stands for both tensor fences where the run does not ask for them.
  void fence_tensor_if_implied(Actor warp);
  Actor add_channel();
  Actor channel(Actor warp, GroupKind kind);
  [[nodiscard]] const EndedGrids& ended(const Clock& clock) const {
    return run_.ended(grid_, clock.at(kGridWait) != 0);
  }
  [[nodiscard]] View seen_by_async(Actor warp, std::uint32_t operation, Actor channel,
                                   std::uint32_t epoch, bool is_shared) const;

  RunRaces& run_;
  std::uint32_t grid_;
  std::uint32_t warps_;  // of a block
  std::uint32_t number_;
  Actor actors_;
  Actor atomics_ = 0;  // their channel; 0: none yet
  std::uint32_t atomic_operations_ = 0;
  std::vector<Warp> warp_states_;
};

}  // namespace emu::races
