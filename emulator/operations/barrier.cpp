// Barriers of a block or a warp: bar.sync, bar.arrive, barrier, bar.warp.

#include <array>
#include <bit>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// Slots: the barrier's number, and the number of threads (optional).
struct BlockBarrier {
  bool waits = false;  // bar.sync waits; bar.arrive does not
};

Outcome run_barrier(Warp& warp, const Op& op, Lanes lanes) {
  const bool waits = op.get<BlockBarrier>().waits;
  warp.require_all_lanes(op, lanes);
  Block& block = warp.block();
  const std::uint32_t number = uniform_value(warp, op, op.slots[0], lanes,
                                             FindingKind::kBarrierMisuse, "the barrier's number");
  if (number >= block.barriers.size()) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("barrier {} does not exist", number));
  }
  Barrier& barrier = block.barriers.at(number);
  Split& split = warp.current();
  if (split.ticket >= 0) {  // the warp has arrived in an earlier attempt
    if (barrier.generation == split.ticket) {
      return warp.wait_for(WaitFor::kBarrier, number);
    }
    split.ticket = -1;
    warp.begin_interval();
    return Outcome::kDone;
  }
  std::uint32_t expected = 0;
  if (op.slots[1] != kNoSlot) {
    expected = uniform_value(warp, op, op.slots[1], lanes, FindingKind::kBarrierMisuse,
                             "the number of threads");
    if (expected == 0 || expected % kLanes != 0) {
      warp.stop(
          FindingKind::kBarrierMisuse, op, lanes,
          fmt::format("the number of threads must be a positive multiple of the warp size, got {}",
                      expected));
    }
  }
  if (barrier.arrived_threads > 0 && barrier.expected_threads != expected) {
    warp.stop(FindingKind::kBarrierMisuse, op, lanes,
              fmt::format("it expects {1} threads at barrier {0}, but earlier arrivals expect {2}",
                          number, expected, barrier.expected_threads));
  }
  // A warp counts as 32 threads if the instruction gives a number of threads; otherwise only the
  // threads that have not exited count.
  barrier.arrived_threads +=
      expected != 0 ? kLanes : static_cast<std::uint32_t>(std::popcount(lanes));
  barrier.expected_threads = expected;
  if (expected != 0 && barrier.arrived_threads > expected) {
    warp.stop(FindingKind::kBarrierMisuse, op, lanes,
              fmt::format("more than {} threads arrive at barrier {}", expected, number));
  }
  if (races::ClusterRaces* const races = warp.races(); races != nullptr) {
    races->arrive(warp.actor(), barrier.sync_point);
    if (waits) {
      barrier.sync_point.waiting.push_back(warp.actor());
    }
  }
  const std::int64_t generation = barrier.generation;
  block.release_barriers();
  if (!waits) {
    return Outcome::kDone;
  }
  if (barrier.generation != generation) {
    warp.begin_interval();
    return Outcome::kDone;
  }
  split.ticket = generation;
  return warp.wait_for(WaitFor::kBarrier, number);
}

void decode_bar(Decoder& decoder) {
  if (decoder.take("warp")) {
    decode_warp_barrier(decoder);
    return;
  }
  if (decoder.take("cluster")) {
    decode_cluster_barrier(decoder);
    return;
  }
  decoder.take("cta");
  const bool waits = decoder.take_one_of({"sync", "arrive"}) == "sync";
  if (decoder.mnemonic() == "barrier") {
    decoder.require("aligned");
  }
  decoder.expect_operands(waits ? 1 : 2, 2);
  decoder.add(decoder.source(0, Type::kU32));
  decoder.add(decoder.instruction().operands.size() == 2 ? decoder.source(1, Type::kU32) : kNoSlot);
  decoder.op().details.set(BlockBarrier{.waits = waits});
  decoder.op().code = &run_barrier;
}

constexpr std::array kOperations = {
    Operation{"bar", &decode_bar},
    Operation{"barrier", &decode_bar},
};

}  // namespace

std::span<const Operation> barrier_operations() {
  return kOperations;
}

}  // namespace emu
