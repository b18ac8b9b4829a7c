// Accesses as shadow memory keeps them, and the view of the one that is made now.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "emulator/races/clock.hpp"

namespace emu::races {

class Fragments;

/// Actor of one of the clusters of a run: the cluster's number, then the actor's bits.
using Party = std::uint32_t;
constexpr unsigned kActorBits = 12;
constexpr Actor kMaxActors = Actor{1} << kActorBits;
constexpr Party kNobody = 0;  // clusters are counted from 1 on

constexpr Actor actor_of(Party party) {
  return party & (kMaxActors - 1);
}
constexpr std::uint32_t cluster_of(Party party) {
  return party >> kActorBits;
}

/// Epoch of a copy that nobody can have waited for.
constexpr std::uint32_t kNeverBefore = std::numeric_limits<std::uint32_t>::max();

struct Access {
  Party party = kNobody;
  std::uint32_t epoch = 0;
  std::uint32_t what = 0;

  friend bool operator==(const Access&, const Access&) = default;
};

/// Packs Access::what: the operation's number in its program, the warp that has run it, and whether
/// the asynchronous proxy makes the access.
constexpr unsigned kWarpBits = 10;
constexpr std::uint32_t kMaxOperations = std::uint32_t{1} << (31 - kWarpBits);
constexpr std::uint32_t what_of(std::uint32_t operation, Actor warp, bool is_async) {
  return (operation << kWarpBits | warp) << 1U | std::uint32_t{is_async};
}
constexpr bool is_async(const Access& access) {
  return (access.what & 1U) != 0;
}
constexpr Actor warp_of(const Access& access) {
  return access.what >> 1U & ((Actor{1} << kWarpBits) - 1);
}
constexpr std::uint32_t operation_of(const Access& access) {
  return access.what >> (kWarpBits + 1);
}

/// Grids that are known to have ended, as the parties that are theirs.
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
    Party first = kNobody;
    Party end = kNobody;
  };
  std::vector<Range> ranges_;  // sorted, with gaps between them, once others have been added
};

/// An access that is made now: what is recorded of it, and what happens before it.
struct View {
  Access access{};
  Actor warp = 0;  // which makes it, or has started what makes it
  const Clock* before = nullptr;
  const Clock* before_as_written = nullptr;  // of generic writes: what the proxy may see of them
  const Fragments* fragments = nullptr;      // null: the warp's lanes are together
  // Grids whose accesses to global memory happen before.
  const EndedGrids* ended = nullptr;
  const EndedGrids* ended_as_written = nullptr;
  const EndedGrids* ended_at_begin = nullptr;  // when the grid began
  bool is_read_only = false;                   // .nc: nobody may write it while the grid runs
};

enum class ConflictKind : std::uint8_t {
  kUnordered,
  kNoProxyFence,     // ordered, but not for the asynchronous proxy
  kReadOnlyWritten,  // by a grid that had not ended when the one that reads it with .nc began
  kNoTensorFence,    // of tensor memory: ordered, but with no tcgen05.fence on the way
};

/// Two accesses to the same bytes, one of them a write, in no happens-before order.
struct Conflict {
  ConflictKind kind = ConflictKind::kUnordered;
  Access other{};  // the earlier one
  bool is_other_write = false;
  std::uint64_t offset = 0;  // of the bytes, in what the shadow belongs to
};

}  // namespace emu::races
