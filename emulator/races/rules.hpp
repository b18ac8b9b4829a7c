// Rules of order: whether an earlier access by the same cluster happens before the current one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "emulator/races/access.hpp"
#include "emulator/races/fragments.hpp"

namespace emu::races {

/// Returns false for an earlier access of the same warp by lanes that have since diverged from the
/// current ones.
inline bool is_before_in_warp(const View& view, const Access& earlier) {
  return view.fragments == nullptr || is_async(earlier) || actor_of(earlier.party) != view.warp ||
         view.fragments->is_before(earlier.epoch);
}

inline bool comes_before(const View& view, const Access& earlier, const Clock& clock) {
  return earlier.epoch <= clock.at(actor_of(earlier.party)) && is_before_in_warp(view, earlier);
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
inline std::optional<ConflictKind> write_conflict(const View& view, const Access& earlier) {
  if (!comes_before(view, earlier, *view.prior_accesses)) {
    return are_strong(view, earlier) ? std::nullopt : std::optional(ConflictKind::kUnordered);
  }
  // Completed accesses of the asynchronous proxy are visible to all; the proxy sees generic writes
  // only after a fence.
  if (!is_async(earlier) && !comes_before(view, earlier, *view.visible_writes)) {
    return ConflictKind::kNoProxyFence;
  }
  return std::nullopt;
}

/// Checks the last writes of cells with find_conflict(write), once per run of cells with the same
/// write. `offset` is that of the first cell, and `shift` the log2 of a cell's size.
template <typename FindConflict>
std::optional<Conflict> check_writes(std::span<const Access> writes, unsigned shift,
                                     std::uint64_t offset, FindConflict&& find_conflict) {
  Access last;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Access& earlier = writes[i];
    if (earlier == last || earlier.party == kNoParty) {
      continue;
    }
    last = earlier;
    if (const auto kind = find_conflict(earlier)) {
      return Conflict{
          .kind = *kind, .other = earlier, .is_other_write = true, .offset = offset + (i << shift)};
    }
  }
  return std::nullopt;
}

}  // namespace emu::races
