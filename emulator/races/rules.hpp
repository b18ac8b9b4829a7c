// Rules of order: whether an earlier access by the same cluster happens before the current one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "emulator/races/access.hpp"
#include "emulator/races/fragments.hpp"
#include "emulator/races/lane_releases.hpp"
#include "emulator/races/same_writes.hpp"

namespace emu::races {

/// Returns false for an earlier access of the same warp by lanes that have since diverged from the
/// current ones.
inline bool is_before_in_warp(const View& view, const Access& earlier) {
  return view.fragments == nullptr || is_async(earlier) || actor_of(earlier.party) != view.warp ||
         view.fragments->is_before(earlier.epoch);
}

/// Whether the lanes of the earlier access have released it by arrivals of their own, where the
/// warp as a whole has not. `written_at`: the place of a write; reads count as those of all lanes,
/// since each has its value before the warp goes on.
inline bool is_released_by_lanes(const View& view, const Access& earlier, const Clock& clock,
                                 std::optional<std::uint64_t> written_at) {
  const auto lanes = view.lanes != nullptr && written_at.has_value()
                         ? view.lanes->lanes_of(earlier, *written_at)
                         : std::nullopt;
  return view.lane_releases->cover(earlier, clock, lanes);
}

inline bool comes_before(const View& view, const Access& earlier, const Clock& clock,
                         std::optional<std::uint64_t> written_at = std::nullopt) {
  return (earlier.epoch <= clock.at(actor_of(earlier.party)) ||
          (view.lane_releases != nullptr &&
           is_released_by_lanes(view, earlier, clock, written_at))) &&
         is_before_in_warp(view, earlier);
}

/// Returns the kind of conflict with an earlier access that does not come before.
inline ConflictKind unordered_kind(const View& view, const Access& earlier) {
  const Clock& clock = *view.prior_accesses;
  return view.lane_releases != nullptr && earlier.epoch > clock.at(actor_of(earlier.party)) &&
                 view.lane_releases->is_released(earlier, clock)
             ? ConflictKind::kOtherLanes
             : ConflictKind::kUnordered;
}

/// Returns whether both accesses are strong, and each one's scope includes the other's thread: such
/// accesses do not race.
inline bool are_strong(const View& view, const Access& earlier) {
  const Scope scope = std::min(scope_of(view.access), scope_of(earlier));
  if (scope == Scope::kNone || scope == Scope::kDevice) {
    return scope == Scope::kDevice;
  }
  if (cluster_of(view.access.party) != cluster_of(earlier.party)) {
    return false;
  }
  const auto block = [&](Actor warp) { return (warp - 1) / view.block_warps; };
  return scope == Scope::kCluster || block(view.warp) == block(warp_of(earlier));
}

/// Returns the conflict of an access with an earlier write, if any.
inline std::optional<ConflictKind> write_conflict(const View& view, const Access& earlier,
                                                  std::uint64_t offset) {
  if (!comes_before(view, earlier, *view.prior_accesses, offset)) {
    return are_strong(view, earlier) ? std::nullopt : std::optional(unordered_kind(view, earlier));
  }
  // Completed accesses of the asynchronous proxy are visible to all; the proxy sees generic writes
  // only after a fence.
  if (!is_async(earlier) && !comes_before(view, earlier, *view.visible_writes, offset)) {
    return ConflictKind::kNoProxyFence;
  }
  return std::nullopt;
}

/// Whether a conflict with an earlier write is let pass, since both store the same value.
inline bool is_repetition(const View& view, const Access& earlier, ConflictKind kind) {
  return view.repeats_value && !is_async(earlier) && scope_of(earlier) == Scope::kNone &&
         (kind == ConflictKind::kUnordered || kind == ConflictKind::kOtherLanes);
}

/// Compares each with the next, as memory.
inline bool are_all_equal(std::span<const Access> writes) {
  static_assert(std::has_unique_object_representations_v<Access>);
  return std::memcmp(writes.data(), writes.data() + 1, writes.size_bytes() - sizeof(Access)) == 0;
}

/// Checks the last writes of cells with find_conflict(write, offset), once per run of cells with
/// the same write unless lanes have released on their own. `offset` is that of the first cell, and
/// `shift` the log2 of a cell's size.
template <typename FindConflict>
std::optional<Conflict> check_writes(const View& view, std::span<const Access> writes,
                                     unsigned shift, std::uint64_t offset,
                                     FindConflict&& find_conflict) {
  Access last;
  if (view.lane_releases == nullptr && !writes.empty() && are_all_equal(writes)) {
    writes = writes.first(1);
  }
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Access& earlier = writes[i];
    if (earlier == last || earlier.party == kNoParty) {
      continue;
    }
    last = view.lane_releases == nullptr ? earlier : Access{};
    if (const auto kind = find_conflict(earlier, offset + (i << shift))) {
      return Conflict{
          .kind = *kind, .other = earlier, .is_other_write = true, .offset = offset + (i << shift)};
    }
  }
  return std::nullopt;
}

/// Checks a write against the last writes of cells, as check_writes does, and against those that
/// they have repeated. What the write itself repeats is kept beside it from now on.
template <typename FindConflict>
std::optional<Conflict> check_and_keep_writes(const View& view, std::span<const Access> writes,
                                              unsigned shift, std::uint64_t offset,
                                              SameWrites& same_writes,
                                              FindConflict&& find_conflict) {
  const auto find_other_value = [&](const Access& earlier, std::uint64_t place) {
    const std::optional<ConflictKind> kind = find_conflict(earlier, place);
    return kind.has_value() && is_repetition(view, earlier, *kind) ? std::nullopt : kind;
  };
  const auto is_repeated = [&](const Access& earlier, std::uint64_t place) {
    return find_conflict(earlier, place).has_value() &&
           !find_other_value(earlier, place).has_value();
  };
  std::optional<Conflict> conflict = check_writes(view, writes, shift, offset, find_other_value);
  if (!view.repeats_value && same_writes.is_empty()) [[likely]] {
    return conflict;
  }
  const std::size_t bytes = writes.size() << shift;
  if (!conflict.has_value()) {
    conflict = same_writes.check(offset, bytes, find_other_value);
  }
  same_writes.remove(offset, bytes, [&](const Access& earlier, std::uint64_t place) {
    return !is_repeated(earlier, place);
  });
  for (std::size_t i = 0; i < writes.size() && view.repeats_value; ++i) {
    const std::uint64_t place = offset + (i << shift);
    if (writes[i].party != kNoParty && is_repeated(writes[i], place)) {
      same_writes.add(writes[i], place, std::size_t{1} << shift);
    }
  }
  return conflict;
}

}  // namespace emu::races
