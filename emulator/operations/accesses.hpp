// Accesses of an operation, as the race detector takes them: as few ranges as possible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/machine/mbarrier.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/operations/memory.hpp"

namespace emu {

/// The operation's number in its program.
std::uint32_t operation_of(Warp& warp, const Op& op);

/// Bytes that are added and then checked together. No other thread accesses local memory and
/// parameters.
class Accesses {
 public:
  Accesses(Warp& warp, const Op& op, Lanes lanes)
      : races_(warp.races()), warp_(warp), op_(op), lanes_(lanes) {}

  void add(const Memory& memory, std::size_t bytes) {
    if (races_ == nullptr || (memory.block == nullptr && memory.allocation == nullptr)) {
      return;
    }
    if (count_ > 0) {
      Range& last = ranges_[count_ - 1];
      const std::byte* const end = last.first + last.bytes;
      if (memory.bytes == end && memory.block == last.block) {
        last.bytes += bytes;
        return;
      }
      if (memory.bytes >= last.first && memory.bytes + bytes <= end) {
        is_repeated_ = true;
        return;
      }
      is_ascending_ = is_ascending_ && memory.bytes > end;
    }
    if (count_ == ranges_.size()) {
      stop_too_many();
    }
    ranges_[count_++] = {memory.bytes, bytes, memory.block, memory.allocation};
  }

  /// Check accesses of the warp itself. Each ends the run with a finding where one of them and an
  /// earlier one of another actor are unordered.
  void check_read(bool is_read_only = false);
  void check_write();
  /// Checks atomic operations, which have an order among each other.
  void check_atomic();
  /// Check those of cp.async: its source, and its destination, which settle() makes the warp's own
  /// once it has waited.
  void check_copy_read();
  void check_copy_write();
  void settle();

  /// Whether several of them are of the same bytes.
  [[nodiscard]] bool overlap() const;

 private:
  // Nothing is initialised: each operation has 32 of them, and mostly uses one.
  struct Range {
    const std::byte* first;
    std::size_t bytes;
    Block* block;
    Allocation* allocation;
  };

  void check(bool is_write, const races::View& view) const;
  [[noreturn]] void stop_too_many() const;

  races::ClusterRaces* races_;
  Warp& warp_;
  const Op& op_;
  Lanes lanes_;
  std::size_t count_ = 0;
  bool is_ascending_ = true;
  bool is_repeated_ = false;
  std::array<Range, kLanes> ranges_;
};

/// Accesses through the asynchronous proxy that a warp, or one lane of it, starts. Each call ends
/// the run with a finding where an earlier access is unordered with it; other lanes' are unordered
/// with one lane's unless they have synchronised.
class AsyncAccesses {
 public:
  /// Starts them in the warp's open group of the kind.
  AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, races::GroupKind kind);
  /// Starts them under an mbarrier, in its current phase.
  AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, const Mbarrier& mbarrier);
  /// Starts them in a tensor core, which accesses shared memory alone.
  AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, const races::View& shared)
      : warp_(warp), op_(op), lanes_(lanes), shared_(shared) {}

  void read_shared(Block& block, std::uint32_t offset, std::size_t bytes) const {
    access_shared(block, false, offset, bytes);
  }
  void write_shared(Block& block, std::uint32_t offset, std::size_t bytes) const {
    access_shared(block, true, offset, bytes);
  }
  void read_global(const Memory& memory, std::size_t bytes) const {
    access_global(memory, false, bytes);
  }
  void write_global(const Memory& memory, std::size_t bytes) const {
    access_global(memory, true, bytes);
  }

 private:
  void access_shared(Block& block, bool is_write, std::uint32_t offset, std::size_t bytes) const;
  void access_global(const Memory& memory, bool is_write, std::size_t bytes) const;

  Warp& warp_;
  const Op& op_;
  Lanes lanes_;
  races::View shared_{};
  races::View global_{};
};

/// Accesses of single lanes to their block's shared memory: each call ends the run with a finding
/// where another lane of the warp has accessed it before, with no barrier between the two.
/// Accesses of less than a word are left out.
class LaneAccesses {
 public:
  LaneAccesses(Warp& warp, const Op& op)
      : warp_(warp),
        op_(op),
        block_(warp.races() == nullptr ? nullptr : &warp.block()),
        operation_(block_ == nullptr ? 0 : operation_of(warp, op)) {}

  /// `lane`: or LaneShadow::kTogether.
  void check(int lane, const Memory& memory, std::size_t bytes, bool is_write) const;
  /// Once all lanes' accesses have been checked.
  void record(int lane, const Memory& memory, std::size_t bytes, bool is_write) const;

 private:
  [[nodiscard]] bool matters(const Memory& memory, std::size_t bytes) const {
    return block_ != nullptr && memory.block == block_ && bytes >= 4;
  }

  Warp& warp_;
  const Op& op_;
  Block* block_;  // the warp's; null: the run does not detect races
  std::uint32_t operation_;
};

/// Ends the run: these lanes have written what other lanes of the same instruction have written
/// over with other values.
[[noreturn]] void stop_of_one_instruction(const Warp& warp, const Op& op, Lanes lanes);

/// Ends the run: an access and an earlier one are in no order. `where`: "shared memory at 0x400".
/// `global`: the address there, or 0.
[[noreturn]] void stop_at_conflict(const Warp& warp, const Op& op, Lanes lanes,
                                   const races::Conflict& conflict, bool is_write,
                                   const std::string& where, std::uint64_t global = 0);

}  // namespace emu
