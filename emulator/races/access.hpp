// What the shadow of memory keeps of an access, and who accesses it now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "emulator/races/clock.hpp"

namespace emu::races {

class Fragments;

/// An actor of one of the clusters of a run: the cluster's number, then the actor's bits.
using Party = std::uint32_t;
constexpr unsigned kActorBits = 12;
constexpr Actor kMostActors = Actor{1} << kActorBits;
constexpr Party kNobody = 0;  // clusters are counted from 1 on

constexpr Actor actor_of(Party party) {
  return party & (kMostActors - 1);
}
constexpr std::uint32_t cluster_of(Party party) {
  return party >> kActorBits;
}

/// Of a copy that nobody can have waited for.
constexpr std::uint32_t kNeverBefore = std::numeric_limits<std::uint32_t>::max();

struct Access {
  Party party = kNobody;
  std::uint32_t epoch = 0;
  std::uint32_t what = 0;

  friend bool operator==(const Access&, const Access&) = default;
};

/// Access::what: the operation's number in its program, the warp that has run it, and whether the
/// asynchronous proxy makes the access.
constexpr unsigned kWarpBits = 10;
constexpr std::uint32_t kMostOperations = std::uint32_t{1} << (31 - kWarpBits);
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

/// An access now: what is recorded of it, and what comes before it.
struct View {
  Access access{};
  Actor warp = 0;  // which makes it, or has started what makes it
  const Clock* before = nullptr;
  const Clock* before_as_written = nullptr;  // of generic writes: what the proxy may see of them
  const Fragments* fragments = nullptr;      // null: the warp's lanes are together
  // Of global memory. Accesses of parties below come before: their grids had ended.
  Party ended = kNobody;
  Party ended_as_written = kNobody;
  Party ended_at_begin = kNobody;  // when the grid began
  bool is_read_only = false;       // .nc: nobody may write it while the grid runs
};

enum class ConflictKind : std::uint8_t {
  kUnordered,
  kNoProxyFence,     // ordered, but not for the asynchronous proxy
  kReadOnlyWritten,  // by a grid that had not ended when the one that reads it with .nc began
};

/// Two accesses of which nothing says which is first.
struct Conflict {
  ConflictKind kind = ConflictKind::kUnordered;
  Access other{};  // the earlier one
  bool is_other_write = false;
  std::uint64_t offset = 0;  // of the bytes, in what the shadow belongs to
};

}  // namespace emu::races
