// A warp: registers of 32 lanes, and its splits while lanes have diverged.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/matrix_products.hpp"
#include "emulator/program/lanes.hpp"
#include "emulator/program/program.hpp"
#include "emulator/program/support.hpp"
#include "emulator/races/lane_shadow.hpp"
#include "emulator/races/races.hpp"
#include "fovea_emulator/finding.hpp"

namespace emu {

class Block;
struct Grid;

/// Exception within a run: ends it with a finding.
struct Stop {
  Finding finding;
};

/// What a blocked operation waits for: the message of a deadlock lists it.
enum class WaitFor : std::uint8_t {
  kNothing,
  kBarrier,           // of threads; `where` is its number
  kMbarrier,          // `where` is its address
  kClusterBarrier,    // of the cluster's threads
  kGrid,              // the end of the previous grid
  kProducts,          // products of its warpgroup
  kRegisters,         // `where` are as many for each thread
  kTensorAllocation,  // `where` columns of tensor memory, or the other block of the pair
  kTensorMoves,       // its loads or stores of tensor memory
};

/// Lanes of a warp that are at the same operation.
struct Split {
  std::int32_t operation = 0;  // number of the next one
  Lanes lanes = kAllLanes;
  std::int32_t parent = -1;  // runs again when the splits that it awaits have joined it
  std::int32_t awaited = 0;  // splits that have not joined it; it runs when there are none
  std::int32_t join = -1;    // where it becomes a part of its parent
  bool is_blocked = false;   // its operation was tried, and waits for others
  std::int64_t ticket = -1;  // state of the blocked operation, from its first try to the next ones
  WaitFor wait_for = WaitFor::kNothing;
  std::uint32_t where = 0;
  races::Fragments::Id fragment = 0;
};

/// A copy to shared memory that a lane has started (cp.async).
struct PendingCopy {
  int lane = 0;
  std::uint32_t to = 0;  // in shared memory
  std::uint64_t from = 0;
  std::size_t from_bytes = 0;  // the others become zeros
  std::size_t bytes = 0;
  bool is_made = false;  // the bytes are there, but no instruction may rely on it yet
  const Op* op = nullptr;
};

/// Copies between two cp.async.commit_group of these lanes.
struct CopyGroup {
  Lanes lanes = 0;
  std::vector<PendingCopy> copies{};
  std::uint32_t number = 0;  // for the race detector
};

/// Progress of a bulk copy that a lane has started, and may wait for (cp.async.bulk).
struct BulkProgress {
  const Op* op = nullptr;
  int lane = 0;
  std::uint32_t group = 0;               // among the lane's groups
  std::vector<std::uint32_t> sources{};  // units of kBoxUnit bytes in shared memory
  bool is_read = false;                  // its source may be written again
  bool is_done = false;
  bool is_awaited = false;  // the lane knows that its source has been read
};

/// A tcgen05.ld or st that a warp has started, and waits for.
struct TensorMove {
  const Op* op = nullptr;
  bool is_load = false;
  bool is_done = false;
  std::vector<Vec<std::uint32_t>> values{};  // of each register
  std::vector<Lanes> valid{};
};

/// Describes an access for a finding.
EarlierAccess earlier_access(const races::RunRaces& run, const races::Access& access);

class Warp {
 public:
  Warp(Block& block, int index, Lanes lanes);

  /// Runs the split up to `limit` operations, or until it is blocked or has parted. Returns how
  /// many were done.
  int run(std::size_t split, int limit);

  [[nodiscard]] bool is_done() const { return live_ == 0; }
  [[nodiscard]] const std::vector<Split>& splits() const { return splits_; }
  [[nodiscard]] bool can_run(std::size_t split) const {
    return split < splits_.size() && splits_[split].lanes != 0 && splits_[split].awaited == 0;
  }
  [[nodiscard]] Block& block() { return block_; }
  [[nodiscard]] const Grid& grid() const;
  [[nodiscard]] int index() const { return index_; }
  /// Lanes that have not exited.
  [[nodiscard]] Lanes live() const { return live_; }
  /// Records what the operation that runs waits for.
  Outcome wait_for(WaitFor what, std::uint32_t where = 0) {
    current().wait_for = what;
    current().where = where;
    return Outcome::kBlocked;
  }
  /// Split whose operation runs.
  [[nodiscard]] Split& current() { return splits_[current_]; }

  /// A register's values.
  template <typename T>
  [[nodiscard]] Vec<T> read(Slot slot) const {
    Vec<T> values;
    std::memcpy(&values, &file_[slot], sizeof(values));
    return values;
  }
  template <typename T>
  [[nodiscard]] T read_lane(Slot slot, int lane) const {
    T value;
    std::memcpy(&value,
                reinterpret_cast<const std::byte*>(&file_[slot]) +
                    sizeof(T) * static_cast<std::size_t>(lane),
                sizeof(T));
    return value;
  }
  /// Sets the lanes' values, of which those in `valid` are initialised.
  template <typename T>
  void write(Slot slot, const Vec<T>& values, Lanes lanes, Lanes valid) {
    if (lanes == kAllLanes) {
      std::memcpy(&file_[slot], &values, sizeof(values));
      set_valid(slot, valid);
      return;
    }
    Vec<T> merged = read<T>(slot);
    for (int i = 0; i < kLanes; ++i) {
      merged.lanes[i] =
          (lanes >> static_cast<unsigned>(i) & 1U) != 0 ? values.lanes[i] : merged.lanes[i];
    }
    std::memcpy(&file_[slot], &merged, sizeof(merged));
    set_valid(slot, (this->valid(slot) & ~lanes) | (valid & lanes));
  }
  /// Sets the lanes to one value.
  template <typename T>
  void fill(Slot slot, T value, Lanes lanes, Lanes valid = kAllLanes) {
    Vec<T> values;
    std::ranges::fill(values.lanes, value);
    write(slot, values, lanes, valid);
  }
  /// Reads a predicate, or what is not it.
  [[nodiscard]] Lanes read_predicate(Slot slot, bool is_negated = false) const {
    return is_negated ? ~file_[slot] : file_[slot];
  }
  void write_predicate(Slot slot, Lanes values, Lanes lanes, Lanes valid) {
    file_[slot] = (file_[slot] & ~lanes) | (values & lanes);
    set_valid(slot, (this->valid(slot) & ~lanes) | (valid & lanes));
  }
  [[nodiscard]] Lanes valid(Slot slot) const { return file_[slot - kHeaderWords]; }
  void set_valid(Slot slot, Lanes valid) { file_[slot - kHeaderWords] = valid; }

  /// Number among the actors of its cluster, for the race detector.
  [[nodiscard]] races::Actor actor() const { return actor_; }
  /// Null: the run does not detect races.
  [[nodiscard]] races::ClusterRaces* races() const { return races_; }
  /// Calls tell(races, actor) where the run detects races.
  template <typename Tell>
  void tell_races(Tell&& tell) const {
    if (races_ != nullptr) {
      tell(*races_, actor_);
    }
  }

  /// Synchronises its lanes: what they have done in memory happens before what they do from now on.
  void begin_interval();
  /// Follows a lane's arrival at an mbarrier: lanes that wait for one from now on acquire what has
  /// been done until now.
  void release_interval();
  void acquire_interval() { intervals_.first = std::max(intervals_.first, released_); }
  [[nodiscard]] const races::OpenIntervals& intervals() const { return intervals_; }

  /// Ends the run with a finding about these lanes, and an address in global memory, if it is of
  /// one.
  [[noreturn]] void stop(FindingKind kind, const Op& op, Lanes lanes, std::string message,
                         std::optional<EarlierAccess> other = std::nullopt,
                         std::uint64_t global = 0) const;
  /// Ends the run if a lane's value is not initialised. `what`: "the address".
  void require_valid(Slot slot, const Op& op, Lanes lanes, std::string_view what) const {
    if ((valid(slot) & lanes) != lanes) [[unlikely]] {
      stop_uninitialized(op, lanes & ~valid(slot), what);
    }
  }
  /// Ends the run with a finding of that kind where something is not allowed.
  void require(const Support& support, FindingKind kind, const Op& op, Lanes lanes) const {
    if (!support) {
      stop(kind, op, lanes, support.reason);
    }
  }
  /// Ends the run unless all lanes that have not exited are here.
  void require_whole(const Op& op, Lanes lanes) const;

  /// Copies in no group yet, and those in groups, the oldest first.
  std::vector<PendingCopy> open_copies{};
  std::deque<CopyGroup> copy_groups{};
  /// Bulk copies under way that count in groups, and how many groups each lane has committed.
  std::vector<std::shared_ptr<BulkProgress>> bulk_copies{};
  std::array<std::uint32_t, kLanes> bulk_groups{};
  /// Loads and stores of tensor memory that no tcgen05.wait has covered, the oldest first.
  std::vector<std::shared_ptr<TensorMove>> tensor_moves{};
  std::size_t tensor_loads = 0;  // of them
  /// Registers of each thread, as setmaxnreg has them.
  std::uint32_t registers;
  /// The generation of barrier.cluster at which it has arrived and not waited yet; -1: none.
  std::int64_t cluster_arrival = -1;
  /// mbarrier.try_wait may return before the phase ends; it does so at most once before it waits to
  /// the end, so that a deadlock shows.
  bool may_time_out = true;
  /// Products of its warpgroup, for the warp's rows.
  MatrixProducts products{};
  /// Priority under Policy::kPriorities.
  std::uint64_t priority = 0;

 private:
  races::OpenIntervals intervals_{};
  races::Interval released_ = 0;  // those before it have been

  template <bool kIsTraced>
  int run_as(std::size_t split, int limit);
  [[nodiscard]] std::uint32_t special_value(std::string_view name, std::uint32_t lane) const;
  /// Checks an instruction that is no product and touches registers of products.
  void touch_async_registers(const Op& op, Lanes lanes);
  /// Checks that no register of the instruction is still being loaded from tensor memory.
  void require_no_tensor_load(const Op& op, Lanes lanes) const;
  void branch(const Op& op, Lanes taken);
  void exit_lanes(Lanes lanes);
  void join_if_there();
  void leave_parent(std::int32_t parent);
  void part_fragments(Split& first, Split& second);
  void join_fragment(const Split& split);
  void run_fragment();
  [[noreturn]] void stop_uninitialized(const Op& op, Lanes lanes, std::string_view what) const;

  Block& block_;
  int index_;
  races::ClusterRaces* races_;
  races::Actor actor_;
  Lanes live_;
  std::size_t current_ = 0;
  std::vector<Split> splits_;
  std::vector<std::uint32_t> file_;
};

}  // namespace emu
