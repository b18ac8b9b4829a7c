// A warp: registers of 32 lanes, and its splits while lanes have diverged.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/call_frame.hpp"
#include "emulator/machine/local_memory.hpp"
#include "emulator/machine/matrix_products.hpp"
#include "emulator/machine/partial_values.hpp"
#include "emulator/program/check_result.hpp"
#include "emulator/program/lanes.hpp"
#include "emulator/program/program.hpp"
#include "emulator/races/lane_shadow.hpp"
#include "emulator/races/races.hpp"
#include "fovea_emulator/finding.hpp"

namespace emu {

class Block;
struct Grid;

/// Reasons for which an operation blocks; a deadlock's message lists them.
enum class WaitFor : std::uint8_t {
  kNothing,
  kBarrier,           // barrier of a block; `wait_detail` is its number
  kMbarrier,          // `wait_detail` is its address
  kClusterBarrier,    // barrier.cluster
  kGrid,              // end of the previous grid
  kProducts,          // wgmma products
  kRegisters,         // setmaxnreg; `wait_detail` is the number of registers per thread
  kTensorAllocation,  // `wait_detail` columns of tensor memory, or the other block of the pair
  kTensorMoves,       // loads or stores of tensor memory
  kLanes,             // other lanes of the warp; `wait_detail` is the mask
};

/// Lanes of a warp that are at the same operation.
struct Split {
  std::int32_t operation = 0;  // number of the next operation
  Lanes lanes = kAllLanes;
  std::int32_t parent =
      -1;  // parent split, which runs again when all splits that it awaits have joined it
  std::int32_t awaited_splits =
      0;  // number of splits that have not joined this one; it runs only when there are none
  std::int32_t join = -1;    // operation at which the split joins its parent
  bool is_blocked = false;   // its operation was tried and has to wait
  std::int64_t ticket = -1;  // state of the blocked operation between its tries; -1: first try
  WaitFor wait_for = WaitFor::kNothing;
  std::uint32_t wait_detail = 0;
  races::Fragments::Id fragment = 0;
  std::shared_ptr<const CallFrame> frame{};  // of the function that the lanes execute; null: kernel
};

/// Lanes that wait at a warp-wide instruction for others that its mask names.
struct LaneMeeting {
  const Op* op = nullptr;  // the instruction; null: any bar.warp.sync
  Lanes mask = 0;
  Lanes arrived = 0;
};

/// A copy from global to shared memory that a lane has started (cp.async).
struct PendingCopy {
  int lane = 0;
  std::uint32_t destination = 0;  // address in shared memory
  std::uint64_t source = 0;
  std::size_t source_bytes = 0;  // bytes to read; the rest of the destination is filled with zeros
  std::size_t bytes = 0;
  bool is_copied = false;    // the bytes are copied, but not yet visible to instructions
  std::uint32_t number = 0;  // of the cp.async among the warp's, for the race detector
  /// Whether the copy has been finished, if an mbarrier counts it, too; null: none does.
  std::shared_ptr<bool> is_finished{};
  const Op* op = nullptr;
};

/// Copies of these lanes in one cp.async group.
struct CopyGroup {
  Lanes lanes = 0;
  std::vector<PendingCopy> copies{};  // in the order of issue
};

/// Progress of a bulk copy that a lane has started and may wait for (cp.async.bulk).
struct BulkProgress {
  const Op* op = nullptr;
  int lane = 0;
  std::uint32_t group = 0;               // number among the lane's groups
  std::vector<std::uint32_t> sources{};  // units of kBoxUnit bytes in shared memory
  bool is_read = false;                  // the source has been read
  bool is_done = false;
  bool is_awaited = false;  // the lane has waited for the read of the source
};

/// A tcgen05.ld or st that a warp has started and not yet waited for.
struct TensorMove {
  const Op* op = nullptr;
  bool is_load = false;
  bool is_done = false;
  bool is_delivered = false;                 // a load whose values are in the registers
  std::vector<Vec<std::uint32_t>> values{};  // values of each register
  std::vector<Lanes> valid{};
};

/// Describes an access for a finding.
EarlierAccess earlier_access(const races::RunRaces& run, const races::Access& access);

class Warp {
 public:
  Warp(Block& block, int index, Lanes lanes);

  /// Runs up to `limit` operations of the split, until it blocks or diverges. Returns the number of
  /// operations done.
  int run(std::size_t split, int limit);

  /// Lets lanes go on that wait where they would meet others of the warp again; false: none do.
  bool release_waiting_lanes();

  [[nodiscard]] bool is_done() const { return live_ == 0; }
  [[nodiscard]] const std::vector<Split>& splits() const { return splits_; }
  [[nodiscard]] bool can_run(std::size_t split) const {
    return split < splits_.size() && splits_[split].lanes != 0 &&
           splits_[split].awaited_splits == 0;
  }
  [[nodiscard]] Block& block() { return block_; }
  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] const Grid& grid() const;
  [[nodiscard]] int index() const { return index_; }
  /// Lanes that have not exited.
  [[nodiscard]] Lanes live_lanes() const { return live_; }
  /// Records the reason for which the current operation blocks.
  Outcome wait_for(WaitFor reason, std::uint32_t wait_detail = 0) {
    current().wait_for = reason;
    current().wait_detail = wait_detail;
    return Outcome::kBlocked;
  }
  /// Split of the current operation.
  [[nodiscard]] Split& current() { return splits_[current_]; }

  /// Reads a register's values.
  template <typename T>
  [[nodiscard]] Vec<T> read(Slot slot) const {
    Vec<T> values;
    std::memcpy(&values, &register_file_[slot], sizeof(values));
    return values;
  }
  template <typename T>
  [[nodiscard]] T read_lane(Slot slot, int lane) const {
    T value;
    std::memcpy(&value,
                reinterpret_cast<const std::byte*>(&register_file_[slot]) +
                    sizeof(T) * static_cast<std::size_t>(lane),
                sizeof(T));
    return value;
  }
  /// Writes the lanes' values, of which those in `valid` are initialised.
  template <typename T>
  void write(Slot slot, const Vec<T>& values, Lanes lanes, Lanes valid) {
    if (lanes == kAllLanes) {
      std::memcpy(&register_file_[slot], &values, sizeof(values));
      set_valid(slot, valid);
      return;
    }
    Vec<T> merged = read<T>(slot);
    for (int i = 0; i < kLanes; ++i) {
      merged.lanes[i] =
          (lanes >> static_cast<unsigned>(i) & 1U) != 0 ? values.lanes[i] : merged.lanes[i];
    }
    std::memcpy(&register_file_[slot], &merged, sizeof(merged));
    set_valid(slot, (this->valid(slot) & ~lanes) | (valid & lanes));
  }
  /// Writes one value to the lanes.
  template <typename T>
  void fill(Slot slot, T value, Lanes lanes, Lanes valid = kAllLanes) {
    Vec<T> values;
    std::ranges::fill(values.lanes, value);
    write(slot, values, lanes, valid);
  }
  /// Reads a predicate, or its negation.
  [[nodiscard]] Lanes read_predicate(Slot slot, bool is_negated = false) const {
    return is_negated ? ~register_file_[slot] : register_file_[slot];
  }
  void write_predicate(Slot slot, Lanes values, Lanes lanes, Lanes valid) {
    register_file_[slot] = (register_file_[slot] & ~lanes) | (values & lanes);
    set_valid(slot, (this->valid(slot) & ~lanes) | (valid & lanes));
  }
  [[nodiscard]] Lanes valid(Slot slot) const { return register_file_[slot - kHeaderWords]; }
  void set_valid(Slot slot, Lanes valid) { register_file_[slot - kHeaderWords] = valid; }

  /// Bits of a lane's value, which the register has, that were written; of all higher bits nothing
  /// is said.
  [[nodiscard]] std::uint64_t written_bits(Slot slot, int lane, std::uint64_t value) const {
    return (valid(slot) & lane_bit(lane)) != 0 ? ~std::uint64_t{0}
                                               : partial_values.written_bits(slot, lane, value);
  }

  [[nodiscard]] LocalMemory& local() { return local_; }
  /// Moves the top of a lane's stack. What is above it has no values any more.
  void set_stack_top(int lane, std::size_t top) {
    partial_bytes.erase(top, local_.top(lane), lane_bit(lane));
    local_.set_top(lane, top);
  }
  /// Address in local memory of the frame of the function that a lane of the current split
  /// executes.
  [[nodiscard]] std::size_t frame_base(int lane) {
    const CallFrame* const frame = current().frame.get();
    return frame == nullptr ? 0 : frame->base[static_cast<std::size_t>(lane)];
  }
  /// Lowest top of a lane's stack at which the function that it executes still has its frame.
  [[nodiscard]] std::size_t least_stack_top(int lane);
  /// Reads a lane's argument of at most 8 bytes of a call that the current split executes.
  struct Argument {
    std::uint64_t value = 0;
    bool is_valid = false;
  };
  [[nodiscard]] Argument read_argument(const PassedValue& argument, int lane);
  /// Writes a lane's result of a call that the current split executes.
  void write_result(const PassedValue& result, int lane, std::uint64_t value);

  /// Actor number in the cluster, for the race detector.
  [[nodiscard]] races::Actor actor() const { return actor_; }
  /// Null if the run does not detect races.
  [[nodiscard]] races::ClusterRaces* races() const { return races_; }
  /// Calls notify(races, actor) if the run detects races.
  template <typename Notify>
  void notify_races(Notify&& notify) const {
    if (races_ != nullptr) {
      notify(*races_, actor_);
    }
  }

  /// Synchronises the warp's lanes: their earlier memory operations happen before their later ones.
  void begin_interval();
  /// Records a lane's arrival at an mbarrier: lanes that wait for an mbarrier later acquire the
  /// operations before the arrival.
  void release_interval();
  void acquire_interval();
  [[nodiscard]] const races::OpenIntervals& intervals() const { return intervals_; }
  /// Lanes that have written shared memory since the lanes synchronised.
  Lanes writing_lanes = 0;

  /// Ends the run with a finding about these lanes and, if given, an address in global memory.
  [[noreturn]] void stop(FindingKind kind, const Op& op, Lanes lanes, std::string message,
                         std::optional<EarlierAccess> other = std::nullopt,
                         std::uint64_t global = 0) const;
  /// Records a finding behind which the run goes on, unless there are enough. `place` names the
  /// element in shared memory that it is about.
  void report(FindingKind kind, const Op& op, Lanes lanes, std::string message,
              std::optional<EarlierAccess> other = std::nullopt, std::uint64_t global = 0,
              std::string place = {}) const;
  /// Reports a lane's value that is not initialised. `what` names the value: "the address".
  void require_valid(Slot slot, const Op& op, Lanes lanes, std::string_view what) const {
    if ((valid(slot) & lanes) != lanes) [[unlikely]] {
      report_uninitialized(op, lanes & ~valid(slot), what);
    }
  }
  /// Reports a finding of this kind if `result` is a refusal.
  void expect(const CheckResult& result, FindingKind kind, const Op& op, Lanes lanes) const {
    if (!result) {
      report(kind, op, lanes, result.reason);
    }
  }
  /// Ends the run with a finding of this kind if `result` is a refusal.
  void require(const CheckResult& result, FindingKind kind, const Op& op, Lanes lanes) const {
    if (!result) {
      stop(kind, op, lanes, result.reason);
    }
  }
  /// Ends the run unless all lanes that have not exited execute the operation. The operation calls
  /// it first, before it changes anything.
  void require_all_lanes(const Op& op, Lanes lanes) const;

  /// Copies that are in no group yet, and committed groups, oldest first.
  std::vector<PendingCopy> open_copies{};
  std::deque<CopyGroup> copy_groups{};
  /// Bulk copies in flight that belong to groups, and the number of groups that each lane has
  /// committed.
  std::vector<std::shared_ptr<BulkProgress>> bulk_copies{};
  std::array<std::uint32_t, kLanes> bulk_groups{};
  /// Loads and stores of tensor memory that no tcgen05.wait has covered, oldest first.
  std::vector<std::shared_ptr<TensorMove>> tensor_moves{};
  std::size_t tensor_loads = 0;  // number of loads among them
  /// Registers per thread, which setmaxnreg changes.
  std::uint32_t registers;
  /// Phase of barrier.cluster at which each lane has arrived and not yet waited; -1: none.
  std::array<std::int64_t, kLanes> cluster_arrivals;
  /// Lanes that wait at warp-wide instructions, and those that have met and not yet gone on.
  std::vector<LaneMeeting> meetings{};
  Lanes met_lanes = 0;
  /// mbarrier.try_wait may return before the phase completes. It does so at most once between
  /// waits, so that a deadlock is detected.
  bool may_time_out = true;
  /// Products of the warpgroup, for the warp's rows.
  MatrixProducts products{};
  /// Registers of which some bytes are initialised.
  PartialValues partial_values{};
  PartialBytes partial_bytes{};  // of local memory
  /// Priority under Policy::kPriorities.
  std::uint64_t priority = 0;

  /// Writes the values of a load that is done to its registers.
  void deliver(TensorMove& load);

 private:
  races::OpenIntervals intervals_{};
  races::Interval released_ = 0;  // intervals before this one are released

  template <bool kIsTraced>
  int run_split(std::size_t split, int limit);
  void fill_special(const SpecialRegister& special);
  /// Checks an instruction, other than a product, that accesses registers of products.
  void check_async_registers(const Op& op, Lanes lanes);
  /// Reports an instruction that has a register of a load from tensor memory before the wait for
  /// it, or, if the run does not check this, returns whether the instruction waits for the load.
  bool waits_for_pending_load(const Op& op, Lanes lanes);
  void branch(const Op& op, Lanes taken);
  /// Lanes of a split that continue at an operation.
  struct Way {
    std::int32_t operation = 0;
    Lanes lanes = 0;
  };
  /// Splits the lanes of the current split, which meet again at the operation's join.
  void diverge(const Op& op, std::span<const Way> ways);
  void branch_indirectly(const Op& op, Lanes lanes);
  /// Executes an operation that calls or returns, or branches to one of many targets.
  void transfer(const Op& op, Lanes lanes);
  void call(const Op& op, Lanes lanes);
  [[nodiscard]] std::int32_t called_function(const Op& op, const Call& call, Lanes lanes,
                                             Lanes& same) const;
  std::shared_ptr<const CallFrame> push_frame(const Op& op, const Call& call, std::int32_t number,
                                              const CallFrame* caller, Lanes lanes);
  void grow_stack(const Op& op, const FunctionCode& function, CallFrame& frame, Lanes lanes);
  void return_lanes(Lanes lanes);
  void restore_registers(const FunctionCode& function, const CallFrame& frame, Lanes lanes);
  std::byte* register_bytes(Slot slot, std::size_t bytes, int lane);
  /// Bytes of each lane's value, and which bits of each are initialised.
  struct PassedBytes {
    std::vector<std::byte> bytes{};
    std::vector<std::uint8_t> written_bits{};
  };
  static constexpr std::uint8_t kAllBits = 0xFF;  // of a byte
  [[nodiscard]] PassedBytes read_passed(const PassedValue& value, const CallFrame* frame,
                                        Lanes lanes);
  void write_passed(const PassedValue& value, const CallFrame* frame, const PassedBytes& passed,
                    Lanes lanes);
  /// Adds a split in the place of one that has ended, or behind all; returns its number.
  std::size_t add_split(Split split);
  void exit_lanes(const Op& op, Lanes lanes);
  /// Joins splits at the current operation that have parted since lanes were let go on. Returns
  /// whether all lanes are together again.
  bool gather_released_lanes();
  /// Ends the run if lanes exit that were let go on, and for which others wait.
  void check_released_exit(const Op& op, Lanes lanes) const;
  void join_if_reconverged();
  void release_parent(std::int32_t parent);
  races::Fragments::Id create_fragment(races::Fragments::Id whole);
  void join_fragment(const Split& split);
  void run_fragment();
  void report_uninitialized(const Op& op, Lanes lanes, std::string_view what) const;
  [[nodiscard]] Finding describe(FindingKind kind, const Op& op, Lanes lanes, std::string message,
                                 std::optional<EarlierAccess> other, std::uint64_t global) const;

  Block& block_;
  int index_;
  races::ClusterRaces* races_;
  races::Actor actor_;
  Lanes live_;
  std::size_t current_ = 0;
  std::vector<Split> splits_;
  Lanes released_lanes_ = 0;          // those that have been let go on since all were last together
  std::size_t searched_splits_ = 64;  // number of splits from which ended ones are looked for
  std::vector<std::uint32_t> register_file_;
  LocalMemory local_;
  std::vector<Lanes> executing_;  // lanes that execute each function of the program
};

}  // namespace emu
