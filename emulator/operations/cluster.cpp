// Synchronisation of clusters and grids: barrier.cluster, mapa, fence, setmaxnreg, griddepcontrol.
#include "emulator/machine/cluster.hpp"

#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

struct ClusterBarrier {
  bool is_relaxed = false;  // releases none of the thread's writes
  bool is_aligned = true;   // all lanes of a warp run it together
};

Outcome run_cluster_arrive(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [is_relaxed, is_aligned] = op.get<ClusterBarrier>();
  if (is_aligned) {
    warp.require_all_lanes(op, lanes);
  }
  Cluster& cluster = warp.block().cluster();
  for_each_lane(lanes, [&](int lane) {
    std::int64_t& arrival = warp.cluster_arrivals.at(static_cast<std::size_t>(lane));
    if (std::exchange(arrival, cluster.generation) >= 0) {
      warp.stop(FindingKind::kBarrierMisuse, op, lanes,
                "it arrives again without having waited for the previous phase");
    }
  });
  if (cluster.races() != nullptr) {
    if (is_relaxed) {
      cluster.races()->arrive_relaxed_at_cluster(warp.actor(), cluster.sync_point);
    } else {
      cluster.races()->arrive(warp.actor(), cluster.sync_point);
    }
  }
  cluster.arrived_threads += static_cast<std::uint32_t>(std::popcount(lanes));
  cluster.release_barrier();
  return Outcome::kDone;
}

Outcome run_cluster_wait(Warp& warp, const Op& op, Lanes lanes) {
  if (op.get<ClusterBarrier>().is_aligned) {
    warp.require_all_lanes(op, lanes);
  }
  bool has_ended = true;
  for_each_lane(lanes, [&](int lane) {
    const std::int64_t arrival = warp.cluster_arrivals.at(static_cast<std::size_t>(lane));
    if (arrival < 0) {
      warp.stop(FindingKind::kBarrierMisuse, op, lanes, "it waits without having arrived");
    }
    has_ended = has_ended && warp.block().cluster().generation != arrival;
  });
  if (!has_ended) {
    return warp.wait_for(WaitFor::kClusterBarrier);
  }
  for_each_lane(lanes,
                [&](int lane) { warp.cluster_arrivals.at(static_cast<std::size_t>(lane)) = -1; });
  warp.begin_interval();
  warp.notify_races(
      [&](auto& races, auto actor) { races.wait(actor, warp.block().cluster().sync_point); });
  return Outcome::kDone;
}

// Slots: the result, the address, the rank.
struct MapAddress {
  int bits = 64;  // size of both addresses
};

Outcome run_mapa(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[1], op, lanes, "the address");
  warp.require_valid(op.slots[2], op, lanes, "the block's rank");
  const std::size_t blocks = warp.block().cluster().blocks().size();
  const int bits = op.get<MapAddress>().bits;
  auto addresses = read_bits(warp, op.slots[1], bits);
  for_each_lane(lanes, [&](int lane) {
    const auto rank = warp.read_lane<std::uint32_t>(op.slots[2], lane);
    if (rank >= blocks) {
      warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
                fmt::format("block {} does not exist in a cluster of {} blocks", rank, blocks));
    }
    std::uint64_t& address = addresses.lanes[lane];
    address += (std::uint64_t{rank} - warp.block().rank()) << kRankShift;
  });
  write_bits(warp, op.slots[0], bits, addresses, lanes, kAllLanes);
  return Outcome::kDone;
}

struct SetRegisters {
  std::uint32_t requested = 0;  // registers per thread
  bool is_increase = false;     // setmaxnreg.inc
};

// Runs setmaxnreg. An increase waits until other warps of the block have released enough registers.
Outcome run_setmaxnreg(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_all_lanes(op, lanes);
  const auto& [requested, is_increase] = op.get<SetRegisters>();
  std::uint32_t& free = warp.block().free_registers;
  if (is_increase ? requested < warp.registers : requested > warp.registers) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("setmaxnreg.{} cannot change the registers per thread from {} to {}",
                          is_increase ? "inc" : "dec", warp.registers, requested));
  }
  const std::uint32_t change =
      is_increase ? requested - warp.registers : warp.registers - requested;
  if (is_increase && change > free) {
    return warp.wait_for(WaitFor::kRegisters, requested);
  }
  free = is_increase ? free - change : free + change;
  warp.registers = requested;
  return Outcome::kDone;
}

Outcome run_grid_wait(Warp& warp, const Op& /*op*/, Lanes /*lanes*/) {
  const Grid* const previous = warp.block().grid().previous;
  if (previous != nullptr && !previous->has_ended()) {
    return warp.wait_for(WaitFor::kGrid);
  }
  warp.notify_races([&](auto& races, auto actor) { races.wait_for_grid(actor); });
  return Outcome::kDone;
}

Outcome run_launch_dependents(Warp& warp, const Op& /*op*/, Lanes /*lanes*/) {
  Block& block = warp.block();
  if (!block.has_released_next_grid) {
    block.has_released_next_grid = true;
    ++block.grid().released_blocks;
    warp.notify_races([&](auto& races, auto actor) { races.release_grid(actor); });
  }
  return Outcome::kDone;
}

// Spaces that a fence.proxy covers.
struct ProxyFence {
  bool covers_shared = true;
  bool covers_global = true;
};

// Matters to the race detector alone: the emulator's memory is sequentially consistent.
struct MemoryFence {
  races::Scope scope = races::Scope::kDevice;
  bool acquires = true;
  bool releases = true;
};

Outcome run_fence(Warp& warp, const Op& op, Lanes /*lanes*/) {
  const auto& [scope, acquires, releases] = op.get<MemoryFence>();
  warp.notify_races(
      [&](auto& races, auto actor) { races.fence(actor, scope, acquires, releases); });
  return Outcome::kDone;
}

Outcome run_proxy_fence(Warp& warp, const Op& op, Lanes /*lanes*/) {
  if (warp.races() != nullptr) {
    const auto& [covers_shared, covers_global] = op.get<ProxyFence>();
    warp.races()->fence_async(warp.actor(), covers_shared, covers_global);
  }
  return Outcome::kDone;
}

Outcome run_init_fence(Warp& warp, const Op& /*op*/, Lanes /*lanes*/) {
  warp.notify_races([&](auto& races, auto actor) { races.fence_init(actor); });
  return Outcome::kDone;
}

void decode_mapa(Decoder& decoder) {
  Op& op = decoder.op();
  decoder.take("shared::cluster");
  const Type type = decoder.take_type();
  if (type != Type::kU32 && type != Type::kU64) {
    decoder.fail("an address must have 32 or 64 bits");
  }
  decoder.expect_operands(3);
  op.details.set(MapAddress{.bits = bits_of(type)});
  decoder.add(decoder.destination(0, bits_of(type)));
  decoder.add(decoder.source(1, type));
  decoder.add(decoder.source(2, Type::kU32));
  op.code = &run_mapa;
}

// Decodes the fences of one direction between the asynchronous and the generic proxy, for what
// is in shared memory.
void decode_restricted_proxy_fence(Decoder& decoder) {
  const bool acquires = decoder.take_one_of({"acquire", "release"}) == "acquire";
  decoder.require(acquires ? "sync_restrict::shared::cluster" : "sync_restrict::shared::cta");
  decoder.require("cluster");
  decoder.op().details.set(ProxyFence{.covers_shared = true, .covers_global = false});
  decoder.op().code = &run_proxy_fence;
}

// Decodes fence.proxy. Proxies of textures and aliases do not exist here; tensor maps in global
// memory are read at once.
void decode_proxy_fence(Decoder& decoder) {
  Op& op = decoder.op();
  if (decoder.take("alias")) {
    op.code = &run_nothing;
    return;
  }
  if (decoder.take("tensormap::generic")) {
    const bool acquires = decoder.take_one_of({"acquire", "release"}) == "acquire";
    const races::Scope scope = require_scope(decoder);
    decoder.expect_operands(acquires ? 2 : 0);
    op.details.set(MemoryFence{.scope = scope, .acquires = acquires, .releases = !acquires});
    op.orders_clusters = scope == races::Scope::kDevice;
    op.code = &run_fence;
    return;
  }
  decoder.expect_operands(0);
  if (decoder.take("async::generic")) {
    decode_restricted_proxy_fence(decoder);
    return;
  }
  decoder.require("async");
  const bool is_global = decoder.take("global");
  const bool is_shared =
      !is_global && (decoder.take("shared::cta") || decoder.take("shared::cluster"));
  op.details.set(ProxyFence{.covers_shared = !is_global, .covers_global = !is_shared});
  op.code = &run_proxy_fence;
}

void decode_fence(Decoder& decoder) {
  Op& op = decoder.op();
  if (decoder.take("proxy")) {
    decode_proxy_fence(decoder);
    return;
  }
  decoder.expect_operands(0);
  if (decoder.take("mbarrier_init")) {
    decoder.require("release");
    decoder.require("cluster");
    op.code = &run_init_fence;
    return;
  }
  MemoryFence fence;
  if (decoder.mnemonic() == "membar") {
    const std::string_view level = decoder.take_one_of({"cta", "gl", "sys"});
    fence.scope = level == "cta" ? races::Scope::kBlock : races::Scope::kDevice;
  } else {
    const std::string_view order = decoder.take_one_of({"acq_rel", "sc", "acquire", "release"});
    fence.acquires = order != "release";
    fence.releases = order != "acquire";
    fence.scope = require_scope(decoder);
  }
  op.details.set(fence);
  op.orders_clusters = fence.scope == races::Scope::kDevice;
  op.code = &run_fence;
}

// Slots: the result, the address.
Outcome run_rank_of(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[1], op, lanes, "the address");
  auto addresses = read_bits(warp, op.slots[1], op.get<MapAddress>().bits);
  Vec<std::uint32_t> ranks{};
  for_each_lane(lanes, [&](int lane) {
    ranks.lanes[lane] =
        static_cast<std::uint32_t>(addresses.lanes[lane] % kWindowBytes >> kRankShift);
  });
  warp.write(op.slots[0], ranks, lanes, kAllLanes);
  return Outcome::kDone;
}

void decode_rank_of(Decoder& decoder) {
  Op& op = decoder.op();
  decoder.take("shared::cluster");
  const Type type = decoder.take_type();
  if (type != Type::kU32 && type != Type::kU64) {
    decoder.fail("an address must have 32 or 64 bits");
  }
  op.details.set(MapAddress{.bits = bits_of(type)});
  decoder.add_operands(32, {type});
  op.code = &run_rank_of;
}

void decode_setmaxnreg(Decoder& decoder) {
  Op& op = decoder.op();
  const bool is_increase = decoder.take_one_of({"inc", "dec"}) == "inc";
  decoder.require("sync");
  decoder.require("aligned");
  decoder.require("u32");
  decoder.expect_operands(1);
  const std::int64_t requested = decoder.immediate(0);
  if (requested < 24 || requested > 256 || requested % 8 != 0) {
    decoder.fail("the number of registers must be a multiple of 8 from 24 to 256");
  }
  op.details.set(
      SetRegisters{.requested = static_cast<std::uint32_t>(requested), .is_increase = is_increase});
  op.code = &run_setmaxnreg;
}

void decode_griddepcontrol(Decoder& decoder) {
  decoder.op().code = decoder.take_one_of({"wait", "launch_dependents"}) == "wait"
                          ? &run_grid_wait
                          : &run_launch_dependents;
  decoder.expect_operands(0);
}

constexpr std::array kOperations = {
    Operation{"mapa", &decode_mapa},
    Operation{"getctarank", &decode_rank_of},
    Operation{"fence", &decode_fence},
    Operation{"membar", &decode_fence},
    Operation{"setmaxnreg", &decode_setmaxnreg},
    Operation{"griddepcontrol", &decode_griddepcontrol},
};

}  // namespace

void decode_cluster_barrier(Decoder& decoder) {
  const bool arrives = decoder.take_one_of({"arrive", "wait"}) == "arrive";
  decoder.take(arrives ? "release" : "acquire");
  ClusterBarrier details;
  details.is_relaxed = arrives && decoder.take("relaxed");
  details.is_aligned = decoder.take("aligned");
  decoder.expect_operands(0);
  decoder.op().details.set(details);
  decoder.op().code = arrives ? &run_cluster_arrive : &run_cluster_wait;
}

std::span<const Operation> cluster_operations() {
  return kOperations;
}

}  // namespace emu
