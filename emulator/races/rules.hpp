// Whether an earlier access comes before one that is made now, in the same cluster.
#pragma once

#include <optional>

#include "emulator/races/access.hpp"
#include "emulator/races/fragments.hpp"

namespace emu::races {

/// Of a warp's own earlier accesses, those of lanes that are apart from these do not come before.
inline bool is_before_in_warp(const View& view, const Access& earlier) {
  return view.fragments == nullptr || is_async(earlier) || actor_of(earlier.party) != view.warp ||
         view.fragments->is_before(earlier.epoch);
}

inline bool comes_before(const View& view, const Access& earlier, const Clock& clock) {
  return earlier.epoch <= clock.at(actor_of(earlier.party)) && is_before_in_warp(view, earlier);
}

/// What an access has against an earlier write.
inline std::optional<ConflictKind> against_write(const View& view, const Access& earlier) {
  if (!comes_before(view, earlier, *view.before)) {
    return ConflictKind::kUnordered;
  }
  // The end of what the asynchronous proxy does is seen by all; it sees others after a fence alone.
  if (!is_async(earlier) && !comes_before(view, earlier, *view.before_as_written)) {
    return ConflictKind::kNoProxyFence;
  }
  return std::nullopt;
}

}  // namespace emu::races
