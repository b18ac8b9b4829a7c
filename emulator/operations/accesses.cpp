// Accesses of an operation, merged into as few ranges as possible for the race detector.
#include "emulator/operations/accesses.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/program/place_name.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {

std::uint32_t operation_number(Warp& warp, const Op& op) {
  const auto number = static_cast<std::uint32_t>(&op - warp.block().grid().program->ops.data());
  if (number >= races::kMaxOperations) {
    throw Error(
        fmt::format("the kernel has more than {} instructions, too many for the race detector",
                    races::kMaxOperations));
  }
  return number;
}

namespace {

// Whether an instruction accesses memory itself, not by a copy or product beside the warps.
bool is_of_threads(std::string_view opcode) {
  constexpr std::array<std::string_view, 4> kMnemonics = {"ld", "st", "atom", "red"};
  return opcode.find(".async") == opcode.npos &&
         std::ranges::any_of(
             kMnemonics, [&](std::string_view mnemonic) { return opcode.starts_with(mnemonic); });
}

std::string conflict_message(const Warp& warp, const Op& op, const races::Conflict& conflict,
                             const EarlierAccess& other, bool is_write, const std::string& where) {
  const std::string_view verb = is_write ? "writes" : "reads";
  const std::string_view participle = conflict.is_other_write ? "written" : "read";
  switch (conflict.kind) {
    case races::ConflictKind::kNoProxyFence:
      return fmt::format(
          "it {} {} through the asynchronous proxy after a generic write, without a "
          "fence.proxy.async between them",
          verb, where);
    case races::ConflictKind::kReadOnlyWritten:
      return fmt::format(
          "it reads {} as read-only (.nc), but a grid that had not ended when this one began has "
          "written there",
          where);
    case races::ConflictKind::kNoTensorFence:
      return fmt::format(
          "it {} {}, which another access has {}; that access has completed, but the threads have "
          "synchronised without tcgen05.fence::before_thread_sync before or "
          "tcgen05.fence::after_thread_sync after",
          verb, where, participle);
    case races::ConflictKind::kOtherLanes:
      return fmt::format(
          "it {} {}, which another access has {}; other lanes of that access's warp have arrived "
          "at an mbarrier since, but no __syncwarp() (bar.warp.sync) orders the access before "
          "their arrival",
          verb, where, participle);
    case races::ConflictKind::kUnordered:
      break;
  }
  const races::RunRaces::Record& record = warp.races()->run().record_of(conflict.other);
  if (record.grid != &warp.grid()) {
    return fmt::format(
        "it {} {}, which an earlier grid has {}: that grid had not ended when this one began, and "
        "no griddepcontrol.wait has waited for it",
        verb, where, participle);
  }
  const bool is_between_warps = other.block == warp.block().index() && other.warp != warp.index() &&
                                is_of_threads(other.instruction) &&
                                is_of_threads(op.instruction->opcode);
  return fmt::format(
      "it {} {}, which another access has {}, and no synchronisation{} orders the two accesses",
      verb, where, participle, is_between_warps ? ", such as __syncthreads() (bar.sync)," : "");
}

}  // namespace

void report_conflict(const Warp& warp, const Op& op, Lanes lanes, const races::Conflict& conflict,
                     bool is_write, const std::string& where, std::uint64_t global,
                     std::string place) {
  const FindingKind kind =
      conflict.kind == races::ConflictKind::kNoProxyFence    ? FindingKind::kNoProxyFence
      : conflict.kind == races::ConflictKind::kNoTensorFence ? FindingKind::kNoTensorFence
                                                             : FindingKind::kRace;
  EarlierAccess other = earlier_access(warp.races()->run(), conflict.other);
  std::string message = conflict_message(warp, op, conflict, other, is_write, where);
  warp.report(kind, op, lanes, std::move(message), std::move(other), global, std::move(place));
}

namespace {

std::string place_name(const Warp& warp, const Op& op, std::uint64_t offset) {
  return shared_place_name(*warp.grid().program, op.instruction->opcode, offset);
}

void check_shared(const Warp& warp, const Op& op, Lanes lanes, const races::View& view,
                  bool is_write, Block& block, std::uint64_t offset, std::size_t bytes) {
  const auto access = [&](const races::View& current) {
    return is_write ? block.shadow.write(current, offset, bytes)
                    : block.shadow.read(current, offset, bytes);
  };
  std::optional<races::Conflict> conflict;
  if (view.lane_releases == nullptr) [[likely]] {
    conflict = access(view);
  } else {
    const races::LaneLookup lanes_of_block = block.lane_lookup();
    races::View view_with_lanes = view;
    view_with_lanes.lanes = &lanes_of_block;
    conflict = access(view_with_lanes);
  }
  if (conflict.has_value()) {
    report_conflict(warp, op, lanes, *conflict, is_write,
                    fmt::format("shared memory at {:#x}", block.shared_base() + conflict->offset),
                    0, place_name(warp, op, conflict->offset));
  }
}

// Ends the run if another lane has accessed the same shared memory since the warp's lanes last
// synchronised.
void check_lane(Warp& warp, const Op& op, int lane, bool is_write, std::uint64_t offset,
                std::size_t bytes, bool is_strong = false, bool repeats_value = false) {
  const Block& block = warp.block();
  const auto conflict = block.lane_shadow.find(warp.intervals(), lane, is_write, offset, bytes,
                                               is_strong, repeats_value);
  if (conflict.has_value()) {
    const std::string other = conflict->lane < 0 ? std::string("other lanes have")
                                                 : fmt::format("lane {} has", conflict->lane);
    warp.report(FindingKind::kRace, op, lane < 0 ? kAllLanes : lane_bit(lane),
                fmt::format("it {} shared memory at {:#x}, which {} {}, without a __syncwarp() "
                            "(bar.warp.sync) or other barrier in between",
                            is_write ? "writes" : "reads", block.shared_base() + conflict->offset,
                            other, conflict->is_write ? "written" : "read"),
                earlier_access(warp.races()->run(),
                               warp.races()->settled_access(warp.actor(), conflict->operation)),
                0, place_name(warp, op, conflict->offset));
  }
}

void check_global(const Warp& warp, const Op& op, Lanes lanes, const races::View& view,
                  bool is_write, Allocation& allocation, std::uint64_t offset, std::size_t bytes) {
  const auto conflict = is_write ? allocation.shadow.write(view, offset, bytes)
                                 : allocation.shadow.read(view, offset, bytes);
  if (conflict.has_value()) {
    report_conflict(warp, op, lanes, *conflict, is_write,
                    fmt::format("global memory at {:#x}", allocation.address + conflict->offset),
                    allocation.address + conflict->offset);
  }
}

}  // namespace

void Accesses::check_read(bool is_read_only, races::Scope scope) {
  if (count_ > 0) {
    check(false, races_->view(warp_.actor(), operation_number(warp_, op_), is_read_only, scope));
  }
}

void Accesses::check_write(races::Scope scope) {
  if (count_ > 0) {
    check(true, races_->view(warp_.actor(), operation_number(warp_, op_), false, scope));
  }
}

void Accesses::check_copy_read() {
  if (count_ > 0) {
    check(false, races_->copy_source_view(warp_.actor(), operation_number(warp_, op_)));
  }
}

void Accesses::check_copy_write() {
  if (count_ > 0) {
    check(true, races_->copy_view(warp_.actor(), operation_number(warp_, op_)));
  }
}

void Accesses::settle(const races::Access& access) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Range& range = ranges_.at(i);
    range.block->shadow.settle(
        access, static_cast<std::uint64_t>(range.first - range.block->shared.data()), range.bytes);
  }
}

void Accesses::check(bool is_write, const races::View& view) const {
  std::optional<races::View> repeating_view;
  if (repeating_ != 0) [[unlikely]] {
    repeating_view = view;
    repeating_view->repeats_value = true;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const Range& range = ranges_[i];
    const races::View& current = is_repeating(i) ? *repeating_view : view;
    if (range.block != nullptr) {
      check_shared(warp_, op_, lanes_, current, is_write, *range.block,
                   static_cast<std::uint64_t>(range.first - range.block->shared.data()),
                   range.bytes);
    } else {
      check_global(warp_, op_, lanes_, current, is_write, *range.allocation,
                   static_cast<std::uint64_t>(range.first - range.allocation->bytes.data()),
                   range.bytes);
    }
  }
}

void require_writable(const Warp& warp, const Op& op, Lanes lanes, const Memory& memory,
                      std::uint64_t address) {
  const bool is_parameter = memory.written == nullptr;
  if (is_parameter || (memory.allocation != nullptr && memory.allocation->is_constant))
      [[unlikely]] {
    warp.stop(FindingKind::kOutOfBounds, op, lanes,
              fmt::format("it writes at {:#x} to {}, which are constant memory", address,
                          is_parameter ? "the kernel's parameters" : ".const variables"),
              std::nullopt, is_parameter ? 0 : address);
  }
}

void LaneAccesses::check(int lane, const Memory& memory, std::size_t bytes, bool is_write,
                         bool repeats_value) const {
  if (is_checked(memory, bytes)) {
    check_lane(warp_, op_, lane, is_write,
               static_cast<std::uint64_t>(memory.bytes - block_->shared.data()), bytes, is_strong_,
               repeats_value);
  }
}

void LaneAccesses::record(int lane, const Memory& memory, std::size_t bytes, bool is_write) const {
  if (block_ == nullptr || memory.block != block_) {
    return;
  }
  if (is_write) {
    warp_.writing_lanes |= lane < 0 ? kAllLanes : lane_bit(lane);
  } else if (bytes < 4) {
    return;
  }
  races::LaneShadow& shadow = bytes >= 4 ? block_->lane_shadow : block_->byte_lane_shadow;
  shadow.record(warp_.intervals(), lane, operation_, is_write,
                static_cast<std::uint64_t>(memory.bytes - block_->shared.data()), bytes,
                is_strong_);
}

// Tries each word that the bytes touch. Locations are made for what releases something alone.
void order_strong_access(Warp& warp, const Memory& memory, std::size_t bytes,
                         const races::StrongAccess& access, bool is_write) {
  races::ClusterRaces* const races = warp.races();
  if (races == nullptr || (memory.block == nullptr && memory.allocation == nullptr)) {
    return;
  }
  races::Locations& locations =
      memory.block != nullptr ? memory.block->locations : memory.allocation->locations;
  const bool makes_locations = is_write && (access.releases || races->has_fences(warp.actor()));
  if (!makes_locations && locations.is_empty()) {
    return;
  }
  const auto begin = static_cast<std::uint64_t>(
      memory.bytes -
      (memory.block != nullptr ? memory.block->shared.data() : memory.allocation->bytes.data()));
  constexpr std::uint64_t kWord = std::uint64_t{1} << races::kCellShift;
  for (std::uint64_t word = begin / kWord * kWord; word < begin + bytes; word += kWord) {
    races::Location* const known = locations.find(word);
    if (known != nullptr && (!is_write || access.is_atomic)) {
      races->read_strong(warp.actor(), access, *known);
    }
    if (is_write && (known != nullptr || makes_locations)) {
      races->write_strong(warp.actor(), access, known != nullptr ? *known : locations.get(word));
    }
  }
}

AsyncAccesses::AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, races::GroupKind kind)
    : warp_(warp), op_(op), lanes_(lanes) {
  warp.notify_races([&](auto& races, auto actor) {
    shared_ = races.async_view(actor, operation_number(warp, op), kind, true);
    global_ = races.async_view(actor, operation_number(warp, op), kind, false);
  });
}

AsyncAccesses::AsyncAccesses(Warp& warp, const Op& op, Lanes lanes, const Mbarrier& mbarrier)
    : warp_(warp), op_(op), lanes_(lanes) {
  warp.notify_races([&](auto& races, auto actor) {
    shared_ = races.async_view(actor, operation_number(warp, op), mbarrier.sync, true);
    global_ = races.async_view(actor, operation_number(warp, op), mbarrier.sync, false);
  });
}

void AsyncAccesses::access_shared(Block& block, bool is_write, std::uint32_t offset,
                                  std::size_t bytes) const {
  if (warp_.races() == nullptr) {
    return;
  }
  if (is_one_lane(lanes_) && &block == &warp_.block()) {
    check_lane(warp_, op_, std::countr_zero(lanes_), is_write, offset, bytes);
  }
  check_shared(warp_, op_, lanes_, shared_, is_write, block, offset, bytes);
}

void AsyncAccesses::access_global(const Memory& memory, bool is_write, std::size_t bytes) const {
  if (warp_.races() != nullptr) {
    check_global(warp_, op_, lanes_, global_, is_write, *memory.allocation,
                 static_cast<std::uint64_t>(memory.bytes - memory.allocation->bytes.data()), bytes);
  }
}

void Accesses::fail_too_many() const {
  throw Error(fmt::format("{}: the instruction has more accesses than a warp has lanes",
                          op_.instruction->opcode));
}

bool Accesses::overlap() const {
  if (is_repeated_ || is_ascending_) {
    return is_repeated_;
  }
  std::vector<Range> sorted(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(count_));
  std::ranges::sort(sorted, {}, &Range::first);
  return std::ranges::adjacent_find(sorted, [](const Range& range, const Range& next) {
           return range.first + range.bytes > next.first;
         }) != sorted.end();
}

void report_differing_lanes(const Warp& warp, const Op& op, Lanes lanes) {
  warp.report(FindingKind::kRace, op, lanes,
              "lanes of the instruction write different values to the same bytes");
}

}  // namespace emu
