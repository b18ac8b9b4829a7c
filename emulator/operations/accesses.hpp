// Accesses of an operation, merged into as few ranges as possible for the race detector.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/machine/mbarrier.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/operations/memory.hpp"

namespace emu {

/// Returns the operation's number in its program.
std::uint32_t operation_number(Warp& warp, const Op& op);

/// Collects the bytes that the lanes of an operation access, and checks them for races together.
/// Ignores local memory and parameters, which no other thread accesses.
class Accesses {
 public:
  Accesses(Warp& warp, const Op& op, Lanes lanes)
      : races_(warp.races()), warp_(warp), op_(op), lanes_(lanes) {}

  /// `repeats_value`: a store of the value that the bytes have, which other stores of it may be
  /// unordered with.
  void add(const Memory& memory, std::size_t bytes, bool repeats_value = false) {
    if (races_ == nullptr || (memory.block == nullptr && memory.allocation == nullptr)) {
      return;
    }
    if (count_ > 0) {
      Range& last = ranges_[count_ - 1];
      const std::byte* const end = last.first + last.bytes;
      if (memory.bytes == end && memory.block == last.block &&
          is_repeating(count_ - 1) == repeats_value) {
        last.bytes += bytes;
        return;
      }
      if (memory.bytes >= last.first && memory.bytes + bytes <= end) {
        is_repeated_ = true;
        repeating_ &= ~(Lanes{!repeats_value} << (count_ - 1));
        return;
      }
      is_ascending_ = is_ascending_ && memory.bytes > end;
    }
    if (count_ == ranges_.size()) {
      fail_too_many();
    }
    repeating_ |= Lanes{repeats_value} << count_;
    ranges_[count_++] = {memory.bytes, bytes, memory.block, memory.allocation};
  }

  /// Check the collected bytes as reads or writes by the warp itself, of a scope if they are
  /// strong. Each function reports an earlier access by another actor that is unordered with one of
  /// them.
  void check_read(bool is_read_only = false, races::Scope scope = races::Scope::kNone);
  void check_write(races::Scope scope = races::Scope::kNone);
  /// Check the source and the destination of a cp.async. After the wait, settle() turns the
  /// destination's writes into the warp's own.
  void check_copy_read();
  void check_copy_write();
  void settle(const races::Access& access) const;

  /// Whether several of the accesses overlap.
  [[nodiscard]] bool overlap() const;

 private:
  // Members are left uninitialised: each operation has 32 ranges and mostly uses one.
  struct Range {
    const std::byte* first;
    std::size_t bytes;
    Block* block;
    Allocation* allocation;
  };

  void check(bool is_write, const races::View& view) const;
  [[nodiscard]] bool is_repeating(std::size_t range) const {
    return (repeating_ >> range & 1U) != 0;
  }
  [[noreturn]] void fail_too_many() const;

  races::ClusterRaces* races_;
  Warp& warp_;
  const Op& op_;
  Lanes lanes_;
  std::size_t count_ = 0;
  bool is_ascending_ = true;
  bool is_repeated_ = false;
  Lanes repeating_ = 0;  // ranges of stores that repeat values, a bit each
  std::array<Range, kLanes> ranges_;
};

/// Checks accesses through the asynchronous proxy that a warp, or one of its lanes, starts. Each
/// check reports an earlier access that is unordered with the new one. Accesses
/// of different lanes are unordered unless the lanes have synchronised.
class AsyncAccesses {
 public:
  /// Accesses in the warp's open group of this kind.
  AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, races::GroupKind kind);
  /// Accesses in the current phase of an mbarrier.
  AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, const Mbarrier& mbarrier);
  /// Accesses by a tensor core, to shared memory only.
  AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, const races::View& shared)
      : warp_(warp), op_(op), lanes_(lanes), shared_(shared) {}

  /// Makes the accesses strong among threads of all clusters, as reductions are.
  void make_strong() {
    constexpr std::uint32_t kStrong = races::pack_origin(0, 0, false, races::Scope::kDevice);
    shared_.access.origin |= kStrong;
    global_.access.origin |= kStrong;
  }
  /// Makes the accesses ones of the generic proxy.
  void make_generic() {
    for (races::View* const view : {&shared_, &global_}) {
      view->access.origin &= ~races::pack_origin(0, 0, true);
      view->visible_writes = view->prior_accesses;
      view->ended_with_visible_writes = view->ended;
      view->visible_others = view->others;
    }
  }

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

/// Checks accesses of single lanes to shared memory. A check reports another lane of
/// the warp that has made a conflicting access with no barrier between. Accesses of less than a
/// word are not checked.
class LaneAccesses {
 public:
  LaneAccesses(Warp& warp, const Op& op, bool is_strong = false)
      : warp_(warp),
        op_(op),
        is_strong_(is_strong),
        block_(warp.races() == nullptr ? nullptr : &warp.block()),
        operation_(block_ == nullptr ? 0 : operation_number(warp, op)) {}

  /// `lane` is a lane's number or LaneShadow::kWholeWarp.
  void check(int lane, const Memory& memory, std::size_t bytes, bool is_write,
             bool repeats_value = false) const;
  /// Records an access, after the accesses of all lanes have been checked.
  void record(int lane, const Memory& memory, std::size_t bytes, bool is_write) const;

 private:
  [[nodiscard]] bool is_checked(const Memory& memory, std::size_t bytes) const {
    return block_ != nullptr && memory.block == block_ && bytes >= 4;
  }

  Warp& warp_;
  const Op& op_;
  bool is_strong_;
  Block* block_;  // the warp's block; null if the run does not detect races
  std::uint32_t operation_;
};

/// Tells the race detector what a strong access to these bytes acquires and releases.
void order_strong_access(Warp& warp, const Memory& memory, std::size_t bytes,
                         const races::StrongAccess& access, bool is_write);

/// Reports lanes of an instruction that have written different values to the same
/// bytes.
void report_differing_lanes(const Warp& warp, const Op& op, Lanes lanes);

/// Reports an access that is unordered with an earlier one. `where` names the
/// place, such as "shared memory at 0x400"; `global` is the address if it is in global memory, or
/// 0; `place` names the element in shared memory.
void report_conflict(const Warp& warp, const Op& op, Lanes lanes, const races::Conflict& conflict,
                     bool is_write, const std::string& where, std::uint64_t global = 0,
                     std::string place = {});

}  // namespace emu
