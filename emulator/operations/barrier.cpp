// Barriers of a block or a warp: bar.sync, bar.red, bar.arrive, barrier, bar.warp.

#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

// What bar.red computes of the predicates of all threads.
enum class Reduction : std::uint8_t { kNone, kCount, kAnd, kOr };

// Slots: the barrier's number, the number of threads (optional), the result and the predicate of
// bar.red.
struct BlockBarrier {
  bool waits = false;      // bar.sync waits; bar.arrive does not
  bool is_aligned = true;  // all lanes of a warp run it together
  Reduction reduction = Reduction::kNone;
  bool is_negated = false;  // the predicate is negated
};

// Finishes the wait for a generation of the barrier.
Outcome pass(Warp& warp, const Op& op, Lanes lanes, const Barrier& barrier,
             std::int64_t generation) {
  warp.begin_interval();
  const Reduction reduction = op.get<BlockBarrier>().reduction;
  if (reduction == Reduction::kNone) {
    return Outcome::kDone;
  }
  const BarrierVotes& votes = barrier.results.at(generation);
  if (reduction == Reduction::kCount) {
    warp.fill(op.slots[2], votes.count, lanes);
  } else {
    const bool holds = reduction == Reduction::kAnd ? votes.all : votes.count > 0;
    warp.write_predicate(op.slots[2], holds ? kAllLanes : 0, lanes, kAllLanes);
  }
  return Outcome::kDone;
}

// Reads the number of threads that the instruction gives; 0: all of the block.
std::uint32_t expected_threads(Warp& warp, const Op& op, Lanes lanes) {
  if (op.slots[1] == kNoSlot) {
    return 0;
  }
  const std::uint32_t expected = uniform_value(
      warp, op, op.slots[1], lanes, FindingKind::kBarrierMisuse, "the number of threads");
  if (expected == 0 || expected % kLanes != 0) {
    warp.stop(
        FindingKind::kBarrierMisuse, op, lanes,
        fmt::format("the number of threads must be a positive multiple of the warp size, got {}",
                    expected));
  }
  return expected;
}

// Counts the arrival of lanes. If the instruction gives a number of threads, a warp counts as 32,
// with those that it does not have; otherwise only the threads that have not exited count.
void count_arrival(Warp& warp, const Op& op, Lanes lanes, Barrier& barrier,
                   std::uint32_t expected) {
  const auto& [waits, is_aligned, reduction, is_negated] = op.get<BlockBarrier>();
  const auto threads = static_cast<std::uint32_t>(std::popcount(lanes));
  barrier.arrived_threads += expected != 0 && is_aligned ? kLanes : threads;
  if (!is_aligned) {
    barrier.arrived_lanes.resize(warp.block().warps().size());
    Lanes& arrived = barrier.arrived_lanes[static_cast<std::size_t>(warp.index())];
    if (arrived == 0 && expected != 0) {
      barrier.arrived_threads +=
          kLanes - static_cast<std::uint32_t>(std::popcount(warp.live_lanes()));
    }
    arrived |= lanes;
  }
  if (reduction != Reduction::kNone) {
    warp.require_valid(op.slots[3], op, lanes, "the predicate");
    const Lanes holding = warp.read_predicate(op.slots[3], is_negated) & lanes;
    barrier.votes.add(static_cast<std::uint32_t>(std::popcount(holding)), threads);
    barrier.has_votes = true;
  }
}

Outcome run_barrier(Warp& warp, const Op& op, Lanes lanes) {
  const BlockBarrier& details = op.get<BlockBarrier>();
  if (details.is_aligned) {
    warp.require_all_lanes(op, lanes);
  }
  Block& block = warp.block();
  const std::uint32_t number = uniform_value(warp, op, op.slots[0], lanes,
                                             FindingKind::kBarrierMisuse, "the barrier's number");
  if (number >= block.barriers.size()) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("barrier {} does not exist", number));
  }
  Barrier& barrier = block.barriers.at(number);
  Split& split = warp.current();
  if (split.ticket >= 0) {  // the lanes have arrived in an earlier attempt
    if (barrier.generation == split.ticket) {
      return warp.wait_for(WaitFor::kBarrier, number);
    }
    return pass(warp, op, lanes, barrier, std::exchange(split.ticket, -1));
  }
  const std::uint32_t expected = expected_threads(warp, op, lanes);
  if (barrier.arrived_threads > 0 && barrier.expected_threads != expected) {
    warp.stop(FindingKind::kBarrierMisuse, op, lanes,
              fmt::format("it expects {1} threads at barrier {0}, but earlier arrivals expect {2}",
                          number, expected, barrier.expected_threads));
  }
  count_arrival(warp, op, lanes, barrier, expected);
  barrier.expected_threads = expected;
  if (expected != 0 && barrier.arrived_threads > expected) {
    warp.stop(FindingKind::kBarrierMisuse, op, lanes,
              fmt::format("more than {} threads arrive at barrier {}", expected, number));
  }
  if (races::ClusterRaces* const races = warp.races(); races != nullptr) {
    races->arrive(warp.actor(), barrier.sync_point);
    if (details.waits) {
      barrier.sync_point.waiting.push_back(warp.actor());
    }
  }
  const std::int64_t generation = barrier.generation;
  block.release_barriers();
  if (!details.waits) {
    return Outcome::kDone;
  }
  if (barrier.generation != generation) {
    return pass(warp, op, lanes, barrier, generation);
  }
  split.ticket = generation;
  return warp.wait_for(WaitFor::kBarrier, number);
}

// Decodes the operands of bar.red, of which the first is the result and the last the predicate.
void decode_reduction(Decoder& decoder, BlockBarrier& details) {
  const std::string_view reduction = decoder.take_one_of({"popc", "and", "or"});
  details.reduction = reduction == "popc"  ? Reduction::kCount
                      : reduction == "and" ? Reduction::kAnd
                                           : Reduction::kOr;
  const bool counts = details.reduction == Reduction::kCount;
  decoder.require(counts ? "u32" : "pred");
  decoder.expect_operands(3, 4);
  const std::size_t last = decoder.instruction().operands.size() - 1;
  decoder.add(decoder.source(1, Type::kU32));
  decoder.add(last == 3 ? decoder.source(2, Type::kU32) : kNoSlot);
  decoder.add(decoder.destination(0, counts ? 32 : 1));
  details.is_negated = decoder.add_predicate(last);
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
  const std::string_view action = decoder.take_one_of({"sync", "arrive", "red"});
  BlockBarrier details{.waits = action != "arrive"};
  details.is_aligned = decoder.mnemonic() == "bar" || decoder.take("aligned");
  if (action == "red") {
    decode_reduction(decoder, details);
  } else {
    decoder.expect_operands(details.waits ? 1 : 2, 2);
    decoder.add(decoder.source(0, Type::kU32));
    decoder.add(decoder.instruction().operands.size() == 2 ? decoder.source(1, Type::kU32)
                                                           : kNoSlot);
  }
  decoder.op().details.set(details);
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
