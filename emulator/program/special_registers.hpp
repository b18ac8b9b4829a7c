// Special registers of PTX: their names and sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace emu {

enum class SpecialKind : std::uint8_t {
  kThread,  // %tid; the index is the axis
  kThreads,
  kBlock,
  kBlocks,
  kCluster,
  kClusters,
  kClusterBlock,  // %cluster_ctaid
  kClusterBlocks,
  kRankInCluster,
  kBlocksInCluster,
  kIsExplicitCluster,
  kLane,
  kWarp,
  kMaxWarps,
  kMultiprocessor,
  kMultiprocessors,
  kGrid,
  kLaneMask,  // the index is a LaneRelation
  kDynamicSharedBytes,
  kTotalSharedBytes,
  kAggregateSharedBytes,
  kReservedSharedBegin,
  kReservedSharedEnd,
  kGroupScratch,   // where cooperative groups of several warps meet
  kWorkspaceHigh,  // halves of the address of a cooperative launch's workspace
  kWorkspaceLow,
  kZero,  // what a driver, a profiler or a graph sets
};

enum class LaneRelation : std::uint8_t { kEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

struct SpecialRegisterName {
  SpecialKind kind = SpecialKind::kZero;
  std::uint8_t index = 0;
  int bits = 32;
};

/// Finds a special register whose value does not change while a warp runs, by its name.
std::optional<SpecialRegisterName> find_special_register(std::string_view name);

}  // namespace emu
