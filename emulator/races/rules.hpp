// Rules of order: whether an earlier access of the same cluster happens before the one made now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "emulator/races/access.hpp"
#include "emulator/races/fragments.hpp"

namespace emu::races {

/// Excludes earlier accesses of the same warp by lanes that have diverged from these.
inline bool is_before_in_warp(const View& view, const Access& earlier) {
  return view.fragments == nullptr || is_async(earlier) || actor_of(earlier.party) != view.warp ||
         view.fragments->is_before(earlier.epoch);
}

inline bool comes_before(const View& view, const Access& earlier, const Clock& clock) {
  return earlier.epoch <= clock.at(actor_of(earlier.party)) && is_before_in_warp(view, earlier);
}

/// Returns what is in conflict between an access and an earlier write, if anything.
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

/// Checks the last writes of cells by against(write). Neighbouring cells mostly have the same one,
/// which is checked once. `offset` and `shift` say where the first cell is, and their bytes.
template <typename Against>
std::optional<Conflict> check_writes(std::span<const Access> writes, unsigned shift,
                                     std::uint64_t offset, Against&& against) {
  Access last;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Access& earlier = writes[i];
    if (earlier == last || earlier.party == kNobody) {
      continue;
    }
    last = earlier;
    if (const auto kind = against(earlier)) {
      return Conflict{
          .kind = *kind, .other = earlier, .is_other_write = true, .offset = offset + (i << shift)};
    }
  }
  return std::nullopt;
}

}  // namespace emu::races
