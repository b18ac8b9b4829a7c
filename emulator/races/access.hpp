// Accesses as shadow memory records them, and the view of the current access.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "emulator/races/order.hpp"

namespace emu::races {

class Fragments;
class LaneReleases;
struct LaneLookup;

/// Global identifier of an actor: the cluster's number in the run, then the bits of the actor.
using Party = std::uint32_t;
constexpr unsigned kActorBits = 12;
constexpr Actor kMaxActors = Actor{1} << kActorBits;
constexpr Party kNoParty = 0;  // clusters are numbered from 1

constexpr Actor actor_of(Party party) {
  return party & (kMaxActors - 1);
}
constexpr std::uint32_t cluster_of(Party party) {
  return party >> kActorBits;
}

/// Epoch of a copy that no thread can have waited for.
constexpr std::uint32_t kNeverBefore = std::numeric_limits<std::uint32_t>::max();

struct Access {
  Party party = kNoParty;
  std::uint32_t epoch = 0;
  std::uint32_t origin = 0;

  friend bool operator==(const Access&, const Access&) = default;
};

/// Packs Access::origin: the operation's number in its program, the warp that executed it, the
/// scope of a strong access, and whether the asynchronous proxy makes the access.
constexpr unsigned kWarpBits = 10;
constexpr unsigned kFlagBits = 3;
constexpr std::uint32_t kMaxOperations = std::uint32_t{1} << (32 - kWarpBits - kFlagBits);
constexpr std::uint32_t pack_origin(std::uint32_t operation, Actor warp, bool is_async,
                                    Scope scope = Scope::kNone) {
  return (operation << kWarpBits | warp) << kFlagBits | static_cast<std::uint32_t>(scope) << 1U |
         std::uint32_t{is_async};
}
constexpr bool is_async(const Access& access) {
  return (access.origin & 1U) != 0;
}
constexpr Scope scope_of(const Access& access) {
  return static_cast<Scope>(access.origin >> 1U & 3U);
}
constexpr Actor warp_of(const Access& access) {
  return access.origin >> kFlagBits & ((Actor{1} << kWarpBits) - 1);
}
constexpr std::uint32_t operation_number(const Access& access) {
  return access.origin >> (kWarpBits + kFlagBits);
}

/// Set of grids that are known to have ended, as ranges of their parties.
class EndedGrids {
 public:
  [[nodiscard]] bool contains(Party party) const {
    return std::ranges::any_of(
        ranges_, [&](const Range& range) { return range.first <= party && party < range.end; });
  }
  void add(Party first, Party end) { ranges_.push_back({first, end}); }
  void add(const EndedGrids& others);

 private:
  struct Range {
    Party first = kNoParty;
    Party end = kNoParty;
  };
  std::vector<Range> ranges_;  // sorted and disjoint, with gaps between them, after add()
};

/// View of the current access: its record, and the accesses that happen before it.
struct View {
  Access access{};
  Actor warp = 0;  // warp that makes the access or has started the work that does
  const Clock* prior_accesses = nullptr;
  const Clock* visible_writes =
      nullptr;  // clock of the earlier generic writes that this proxy may see
  const Fragments* fragments = nullptr;         // null if the lanes of the warp have not diverged
  const LaneReleases* lane_releases = nullptr;  // null if no lanes have released on their own
  const LaneLookup* lanes = nullptr;            // null if nothing records the accesses of lanes
  // Grids whose accesses to global memory happen before this access.
  const EndedGrids* ended = nullptr;
  const EndedGrids* ended_with_visible_writes = nullptr;
  const EndedGrids* ended_at_begin = nullptr;  // grids that had ended when this one began
  // Accesses to global memory by other clusters that happen before this access.
  const ClusterClocks* others = nullptr;
  const ClusterClocks* visible_others = nullptr;
  std::uint32_t block_warps = 1;   // number of warps per block
  bool keeps_all_readers = false;  // threads may order clusters of a grid
  bool is_read_only = false;       // .nc: no thread may write the bytes while the grid runs
  bool repeats_value = false;      // a store of the value that is there, which may be unordered
};

enum class ConflictKind : std::uint8_t {
  kUnordered,
  kNoProxyFence,     // ordered, but not visible to the asynchronous proxy
  kReadOnlyWritten,  // written by a grid that had not ended when the grid of the .nc read began
  kNoTensorFence,    // in tensor memory: ordered, but without the required tcgen05.fence
  kOtherLanes,  // other lanes of the earlier access's warp have arrived, without a bar.warp.sync
};

/// Two accesses to the same bytes, at least one of them a write, without a happens-before order.
struct Conflict {
  ConflictKind kind = ConflictKind::kUnordered;
  Access other{};  // the earlier access
  bool is_other_write = false;
  std::uint64_t offset = 0;  // offset of the bytes in the memory that the shadow covers
};

}  // namespace emu::races
