// Finds accesses to memory of which nothing says which is first: who has synchronised with whom.
//
// Each warp of a cluster has vector clocks (Order), which what synchronises carries from one to the
// other. Shadows of memory hold the last accesses to each cell and ask the clock of who comes next.
// Copies and products that go on while their warp does are actors of their own, channels: an
// mbarrier whose phases count what is copied under it, and a warp's groups of each kind. What a
// channel has done comes before what a warp does once that warp, or one before it, has waited.
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

/// Where warps meet: what those that have come so far bring, and what those take away that go on.
struct Meeting {
  Order brought{};
  Order taken{};

  std::vector<Actor> waiting{};  // warps that have come and go on with the others

  /// All have come. What they have brought is there for those who ask later.
  void complete() {
    taken.join(brought);
    brought.clear();
  }
};

/// An mbarrier. What is copied under it in a phase is done when the phase ends.
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

/// What goes on in groups, which are committed and waited for.
enum class GroupKind : std::uint8_t {
  kCopy,       // cp.async
  kBulkRead,   // cp.async.bulk from shared memory: its source
  kBulkWrite,  // and its destination
  kProduct,    // wgmma, of the four warps of a warpgroup
};
constexpr std::size_t kGroupKinds = 4;

/// The clusters of a run, and the grids they are of, in the order in which they began.
class RunRaces {
 public:
  /// A cluster for the findings.
  struct Record {
    const void* grid = nullptr;  // the caller's
    std::vector<std::array<std::uint32_t, 3>> blocks{};
    std::uint32_t warps = 0;  // of a block
  };

  explicit RunRaces(bool needs_tensor_fences = true) : needs_tensor_fences_(needs_tensor_fences) {}

  /// Grids are counted from 1 on, which it gives. All clusters of one have been added when the next
  /// one begins. All before one that is not dependent have ended.
  std::uint32_t begin_grid(bool is_dependent);
  /// A block of the grid has let the next one start, or has ended, having waited for the one before
  /// it or not.
  void release(std::uint32_t grid, bool has_waited);
  /// The grid before it has ended, for those who know of this wait.
  void wait(std::uint32_t grid);
  std::uint32_t add_cluster(Record record);  // its number

  /// Whether what has ended in tensor memory must be told through tcgen05.fence.
  [[nodiscard]] bool needs_tensor_fences() const { return needs_tensor_fences_; }
  [[nodiscard]] const Record& record_of(const Access& access) const {
    return records_.at(cluster_of(access.party) - 1);
  }
  /// Those that had ended when the grid began, whatever the schedule, and when it has waited.
  [[nodiscard]] const EndedGrids& ended(std::uint32_t grid, bool has_waited) const {
    const Grid& found = grids_.at(grid - 1);
    return has_waited ? found.after_wait : found.at_begin;
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

/// The warps of a cluster, counted over all its blocks from 1 on.
class ClusterRaces {
 public:
  ClusterRaces(RunRaces& run, RunRaces::Record record, std::uint32_t grid);

  [[nodiscard]] Actor warp(std::uint32_t rank, std::uint32_t index) const {
    return 1 + rank * warps_ + index;
  }
  [[nodiscard]] const RunRaces& run() const { return run_; }

  /// An access that a warp's operation makes itself.
  [[nodiscard]] View view(Actor warp, std::uint32_t operation, bool is_read_only = false) const;
  /// An atomic operation, which comes after all others of the cluster. They are an actor of their
  /// own; who has synchronised with a warp knows of them up to its last one.
  [[nodiscard]] View atomic_view(Actor warp, std::uint32_t operation);
  /// cp.async's write, which comes before nothing until it is settled.
  [[nodiscard]] View copy_view(Actor warp, std::uint32_t operation);
  /// And what it reads, in the warp's open group.
  [[nodiscard]] View copy_source_view(Actor warp, std::uint32_t operation);
  /// One in the asynchronous proxy, by what the warp starts now: in its open group, or under an
  /// mbarrier, in the phase that it is in. `is_shared`: to shared memory.
  [[nodiscard]] View async_view(Actor warp, std::uint32_t operation, GroupKind kind,
                                bool is_shared);
  [[nodiscard]] View async_view(Actor warp, std::uint32_t operation,
                                const MbarrierMeeting& mbarrier, bool is_shared) const;
  /// What settles a copy: as if the warp had written it now.
  [[nodiscard]] Access settled(Actor warp, std::uint32_t operation) const;

  void arrive(Actor warp, Meeting& meeting);
  /// Brings what fence.mbarrier_init has covered and of tensor memory what tcgen05.fence has, and
  /// no other accesses.
  void arrive_relaxed(Actor warp, Meeting& meeting);
  void wait(Actor warp, const Meeting& meeting);
  /// Takes no more than arrive_relaxed brings.
  void wait_relaxed(Actor warp, const Meeting& meeting);
  /// All have come, and those who wait there go on with what was brought, they alone.
  void release(Meeting& meeting);

  void init(Actor warp, std::uint32_t operation, MbarrierMeeting& mbarrier);
  /// Whether the mbarrier's beginning comes before what the warp does with it, or starts in the
  /// asynchronous proxy.
  [[nodiscard]] bool is_initialized(Actor warp, const MbarrierMeeting& mbarrier,
                                    bool is_async) const;

  void fence_async(Actor warp, bool is_shared, bool is_global);
  void fence_init(Actor warp);
  /// The end of a block, which all that is done to its shared memory must come before; but for
  /// cp.async, and for what its bulk stores read unless `with_stores`.
  struct BlockEnd {
    Clock before{};
    [[nodiscard]] View view() const { return {.before = &before, .before_as_written = &before}; }
  };
  [[nodiscard]] BlockEnd end_of_block(std::uint32_t rank, bool with_stores) const;
  [[nodiscard]] Actor rank_of(Actor warp) const { return (warp - 1) / warps_; }

  /// The grid before this one has ended, with all that had ended before it for sure, and what they
  /// have written is there.
  void wait_for_grid(Actor warp);
  /// The next grid may start, for the part of the warp's block.
  void release_grid(Actor warp);
  /// For that of the block with this rank, which has ended.
  void release_grid_at_end(std::uint32_t rank);

  /// The open group ends; the next begins. Gives its number, from 1 on.
  std::uint32_t commit(Actor warp, GroupKind kind);
  [[nodiscard]] std::uint32_t committed(Actor warp, GroupKind kind) const;
  /// The groups up to this one are done, and the warp knows.
  void wait_groups(Actor warp, GroupKind kind, std::uint32_t last);

  /// Lanes of a warp part, meet, and run.
  Fragments::Id part(Actor warp, Fragments::Id parent) {
    return state(warp).fragments.part(parent);
  }
  void join(Actor warp, Fragments::Id fragment, Fragments::Id into) {
    state(warp).fragments.join(fragment, into);
  }
  void run_fragment(Actor warp, Fragments::Id fragment);

  // Tensor memory. What a warp loads and stores are channels of their own, and so is what each of
  // its lanes makes tensor cores do.

  /// A tcgen05.ld or st by the warp, its next one.
  [[nodiscard]] TensorView tensor_move(Actor warp, std::uint32_t operation, bool is_load);
  /// All of them so far have ended, and the warp knows.
  void wait_for_tensor_moves(Actor warp, bool are_loads);
  /// A tcgen05.mma, cp or commit of a lane, its next one.
  struct TensorIssue {
    Actor channel = 0;
    std::uint32_t epoch = 0;
  };
  TensorIssue issue_tensor(Actor warp, int lane);
  [[nodiscard]] TensorView tensor_view(Actor warp, std::uint32_t operation,
                                       const TensorIssue& issue, std::uint64_t form) const;
  /// And what it reads of shared memory.
  [[nodiscard]] View tensor_shared_view(Actor warp, std::uint32_t operation,
                                        const TensorIssue& issue) const {
    return seen_by_async(warp, operation, issue.channel, issue.epoch, true);
  }
  /// The end of an allocation, which takes effect at once.
  [[nodiscard]] TensorView tensor_end(Actor warp, std::uint32_t operation) const;
  void tensor_fence_before(Actor warp);
  void tensor_fence_after(Actor warp);
  /// What a tcgen05.commit brings when all before it of its lane has ended.
  [[nodiscard]] Order tensor_commit(Actor warp, const TensorIssue& issue) const;

 private:
  struct Warp {
    Order order{};
    Fragments fragments{};
    std::array<Actor, kGroupKinds> channels{};           // 0: none yet
    std::array<std::uint32_t, kGroupKinds> committed{};  // groups
    /// Of tensor memory, as what it does there itself sees it: fences have carried it there.
    Clock tensor_ended{};
    Clock tensor_issued{};
    /// What the last products and copies that were issued come after.
    Clock before_issues{};
    std::array<TensorIssue, 2> tensor_moves{};   // the last store, the last load
    std::map<int, TensorIssue> tensor_issues{};  // the last of each lane
  };

  Warp& state(Actor warp) { return warp_states_[warp - 1]; }
  [[nodiscard]] const Warp& state(Actor warp) const { return warp_states_[warp - 1]; }
  [[nodiscard]] std::uint32_t epoch(Actor warp) const { return state(warp).order.generic.at(warp); }
  // What the warp does from now on, those who take what it has brought do not know.
  void advance(Actor warp) { state(warp).order.generic.raise(warp, epoch(warp) + 1); }
  [[nodiscard]] Party party_of(Actor actor) const { return number_ << kActorBits | actor; }
  // Before what synchronises with others, and before what is done in tensor memory.
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
