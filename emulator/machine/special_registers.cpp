// Values of the special registers.
#include "emulator/machine/special_registers.hpp"

#include <array>

#include "emulator/machine/block.hpp"
#include "emulator/program/address_space.hpp"
#include "emulator/syntax/module.hpp"

namespace emu {
namespace {

// Numbers of a Hopper.
constexpr std::uint32_t kMultiprocessors = 132;
constexpr std::uint32_t kMaxWarps = 64;   // of a multiprocessor
constexpr std::size_t kSharedUnit = 128;  // in which shared memory is allocated

std::uint32_t thread_index(const Grid& grid, std::uint32_t thread, std::size_t axis) {
  return std::array{thread % grid.threads[0], thread / grid.threads[0] % grid.threads[1],
                    thread / grid.threads[0] / grid.threads[1]}
      .at(axis);
}

std::uint32_t lane_mask(LaneRelation relation, std::uint32_t lane) {
  const Lanes equal = lane_bit(static_cast<int>(lane));
  const Lanes less = equal - 1;
  switch (relation) {
    case LaneRelation::kEqual:
      return equal;
    case LaneRelation::kLess:
      return less;
    case LaneRelation::kLessOrEqual:
      return less | equal;
    case LaneRelation::kGreater:
      return ~(less | equal);
    case LaneRelation::kGreaterOrEqual:
      break;
  }
  return ~less;
}

// Blocks are distributed over the multiprocessors in turn.
std::uint32_t multiprocessor(const Block& block, const Grid& grid) {
  const std::array<std::uint32_t, 3>& index = block.index();
  const std::uint64_t number =
      (std::uint64_t{index[2]} * grid.blocks[1] + index[1]) * grid.blocks[0] + index[0];
  return static_cast<std::uint32_t>(number % kMultiprocessors);
}

}  // namespace

std::uint64_t special_value(Block& block, std::uint32_t warp, std::uint32_t lane,
                            SpecialRegisterName name) {
  const Grid& grid = block.grid();
  const std::size_t axis = name.index < 3 ? name.index : 0;
  const std::size_t used = grid.shared_bytes - kReservedSharedBytes;
  switch (name.kind) {
    case SpecialKind::kThread:
      return thread_index(grid, warp * kLanes + lane, axis);
    case SpecialKind::kThreads:
      return grid.threads.at(axis);
    case SpecialKind::kBlock:
      return block.index().at(axis);
    case SpecialKind::kBlocks:
      return grid.blocks.at(axis);
    case SpecialKind::kCluster:
      return block.index().at(axis) / grid.cluster.at(axis);
    case SpecialKind::kClusters:
      return grid.blocks.at(axis) / grid.cluster.at(axis);
    case SpecialKind::kClusterBlock:
      return block.index().at(axis) % grid.cluster.at(axis);
    case SpecialKind::kClusterBlocks:
      return grid.cluster.at(axis);
    case SpecialKind::kRankInCluster:
      return block.rank();
    case SpecialKind::kBlocksInCluster:
      return grid.cluster_blocks();
    case SpecialKind::kIsExplicitCluster:
      return grid.cluster_blocks() > 1 || grid.program->function->required_cluster[0] != 0 ? 1 : 0;
    case SpecialKind::kLane:
      return lane;
    case SpecialKind::kWarp:
      return warp;
    case SpecialKind::kMaxWarps:
      return kMaxWarps;
    case SpecialKind::kMultiprocessor:
      return multiprocessor(block, grid);
    case SpecialKind::kMultiprocessors:
      return kMultiprocessors;
    case SpecialKind::kGrid:
      return grid.number;
    case SpecialKind::kLaneMask:
      return lane_mask(static_cast<LaneRelation>(name.index), lane);
    case SpecialKind::kDynamicSharedBytes:
      return grid.dynamic_shared_bytes;
    case SpecialKind::kTotalSharedBytes:
      return syntax::align_up(used, kSharedUnit);
    case SpecialKind::kAggregateSharedBytes:
      return kReservedSharedBytes + syntax::align_up(used, kSharedUnit);
    case SpecialKind::kReservedSharedEnd:
      return kReservedSharedBytes;
    case SpecialKind::kGroupScratch:
      return block.shared_base() + kGroupScratch;
    case SpecialKind::kWorkspaceHigh:
      return grid.workspace >> 32U;
    case SpecialKind::kWorkspaceLow:
      return grid.workspace & 0xFFFF'FFFFU;
    case SpecialKind::kReservedSharedBegin:
    case SpecialKind::kZero:
      break;
  }
  return 0;
}

}  // namespace emu
