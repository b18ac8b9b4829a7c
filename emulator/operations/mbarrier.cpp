// mbarrier instructions: init, inval, arrive, arrive_drop, expect_tx, complete_tx, test_wait,
// try_wait, pending_count.
#include "emulator/operations/mbarrier.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

std::uint32_t shared_offset(std::uint64_t address) {
  return static_cast<std::uint32_t>(address & kOffsetMask);
}

struct MbarrierOperand {
  AddressOperand address{};
  MemorySpace space = MemorySpace::kGeneric;
};

Mbarrier& initialized_mbarrier(Warp& warp, const Op& op, const MbarrierOperand& operand, int lane) {
  Mbarrier& mbarrier =
      find_mbarrier(warp, op, lane, operand.space, address_of(warp, operand.address, lane));
  require_initialized(warp, op, lane_bit(lane), mbarrier, false);
  return mbarrier;
}

// Whether the mbarrier belongs to another block.
bool is_remote(Warp& warp, const MbarrierOperand& operand, int lane) {
  const std::uint64_t address = address_of(warp, operand.address, lane);
  return operand.space != MemorySpace::kShared &&
         address % kWindowBytes >> kRankShift != warp.block().rank();
}

// Slots: the address, the number of arrivals per phase.
Outcome run_init(Warp& warp, const Op& op, Lanes lanes) {
  const AddressOperand& operand = op.get<MbarrierOperand>().address;
  warp.require_valid(op.slots[0], op, lanes, "the address");
  warp.require_valid(op.slots[1], op, lanes, "the number of arrivals");
  Accesses accesses(warp, op, lanes);
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, operand, lane);
    const Memory memory = resolve(warp, op, lane, MemorySpace::kShared, address, kMbarrierBytes);
    const auto expected = warp.read_lane<std::uint32_t>(op.slots[1], lane);
    if (expected == 0 || expected > kMaxArrivals) {
      warp.stop(
          FindingKind::kIllegalOperand, op, lane_bit(lane),
          fmt::format("the number of arrivals must be 1 to {}, got {}", kMaxArrivals, expected));
    }
    accesses.add(memory, kMbarrierBytes);
    const auto [entry, is_new] =
        warp.block().mbarriers.try_emplace(shared_offset(address), expected);
    if (!is_new) {
      warp.stop(FindingKind::kBarrierMisuse, op, lane_bit(lane),
                fmt::format("the mbarrier at {:#x} is initialised twice", address));
    }
    races::MbarrierSync& sync = entry->second.sync;
    warp.notify_races(
        [&](auto& races, auto actor) { races.init(actor, operation_number(warp, op), sync); });
    std::ranges::fill_n(memory.bytes, kMbarrierBytes, std::byte{0xCB});
    std::ranges::fill_n(memory.written, kMbarrierBytes, kMbarrierMark);
  });
  accesses.check_write();
  return Outcome::kDone;
}

// Slots: the address.
Outcome run_inval(Warp& warp, const Op& op, Lanes lanes) {
  const AddressOperand& operand = op.get<MbarrierOperand>().address;
  warp.require_valid(op.slots[0], op, lanes, "the address");
  Accesses accesses(warp, op, lanes);
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, operand, lane);
    const Mbarrier& mbarrier = find_mbarrier(warp, op, lane, MemorySpace::kShared, address);
    warp.expect(mbarrier.check_end(), FindingKind::kBarrierMisuse, op, lane_bit(lane));
    warp.block().mbarriers.erase(shared_offset(address));
    const Memory memory = resolve(warp, op, lane, MemorySpace::kShared, address, kMbarrierBytes);
    memory.set_written(0, kMbarrierBytes, false);
    accesses.add(memory, kMbarrierBytes);
  });
  accesses.check_write();
  return Outcome::kDone;
}

// Slots: the previous state (optional), the address, the number of arrivals (optional), the bytes
// to expect (optional).
struct MbarrierArrival {
  MbarrierOperand mbarrier{};
  bool arrives = false;  // false: only expects bytes
  bool is_relaxed = false;
  bool drops = false;              // arrive_drop
  bool must_not_complete = false;  // .noComplete
};

void record_remote_arrival(Warp& warp, const Op& op, Mbarrier& mbarrier) {
  const races::Access access = warp.races()->view(warp.actor(), operation_number(warp, op)).access;
  std::erase_if(mbarrier.remote_arrivals,
                [&](const races::Access& earlier) { return earlier.party == access.party; });
  mbarrier.remote_arrivals.push_back(access);
}

// Releases, for the race detector, what the lanes that arrive at the mbarrier have done: all that
// the warp has, unless other lanes have written shared memory without a bar.warp.sync since.
void release(Warp& warp, const Op& op, Lanes lanes, int lane, Mbarrier& mbarrier) {
  races::ClusterRaces& races = *warp.races();
  const MbarrierArrival& arrival = op.get<MbarrierArrival>();
  races::SyncPoint& sync_point = mbarrier.sync.sync_point;
  if (arrival.is_relaxed) {
    races.arrive_relaxed(warp.actor(), sync_point);
    return;
  }
  Lanes arriving = lanes;
  if ((warp.writing_lanes & ~lane_bit(lane)) != 0) {
    const std::uint64_t address = address_of(warp, arrival.mbarrier.address, lane);
    for_each_lane(lanes, [&](int other) {
      if (address_of(warp, arrival.mbarrier.address, other) != address) {
        arriving &= ~lane_bit(other);
      }
    });
  }
  if ((warp.writing_lanes & ~arriving) != 0) {
    races.arrive_lanes(warp.actor(), sync_point, arriving);
  } else {
    races.arrive(warp.actor(), sync_point);
  }
}

Outcome run_arrive(Warp& warp, const Op& op, Lanes lanes) {
  const MbarrierArrival& arrival = op.get<MbarrierArrival>();
  warp.require_valid(op.slots[1], op, lanes, "the address");
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
    if (op.slots.at(i) != kNoSlot) {
      warp.require_valid(op.slots.at(i), op, lanes,
                         i == 2 ? "the number of arrivals" : "the bytes");
    }
  }
  Vec<std::uint64_t> states{};
  races::ClusterRaces* const races = warp.races();
  const Mbarrier* last = nullptr;
  std::uint64_t last_phase = 0;
  for_each_lane(lanes, [&](int lane) {
    Mbarrier& mbarrier = initialized_mbarrier(warp, op, arrival.mbarrier, lane);
    states.lanes[lane] = mbarrier.state();
    if (op.slots[3] != kNoSlot) {
      warp.require(mbarrier.expect_bytes(warp.read_lane<std::uint32_t>(op.slots[3], lane)),
                   FindingKind::kBarrierMisuse, op, lane_bit(lane));
    }
    if (arrival.arrives) {
      if (!arrival.is_relaxed) {
        warp.release_interval();
      }
      // Lanes that arrive in one phase by one instruction release together.
      const bool is_first = &mbarrier != last || mbarrier.phase() != last_phase;
      last = &mbarrier;
      last_phase = mbarrier.phase();
      if (races != nullptr && (is_first || arrival.is_relaxed)) {
        if (is_remote(warp, arrival.mbarrier, lane)) {
          record_remote_arrival(warp, op, mbarrier);
        }
        release(warp, op, lanes, lane, mbarrier);
      }
      const std::uint32_t count =
          op.slots[2] == kNoSlot ? 1 : warp.read_lane<std::uint32_t>(op.slots[2], lane);
      if (arrival.must_not_complete && mbarrier.would_complete(count)) {
        warp.stop(FindingKind::kBarrierMisuse, op, lane_bit(lane),
                  "the arrival completes the phase, in spite of .noComplete");
      }
      warp.require(arrival.drops ? mbarrier.drop(count) : mbarrier.arrive(count),
                   FindingKind::kBarrierMisuse, op, lane_bit(lane));
    }
  });
  if (op.slots[0] != kNoSlot) {
    warp.write(op.slots[0], states, lanes, kAllLanes);
  }
  return Outcome::kDone;
}

// Slots: the result, the state that an arrival has returned.
Outcome run_pending_count(Warp& warp, const Op& op, Lanes lanes) {
  const auto states = warp.read<std::uint64_t>(op.slots[1]);
  Vec<std::uint32_t> counts{};
  for_each_lane(lanes,
                [&](int lane) { counts.lanes[lane] = Mbarrier::pending_of(states.lanes[lane]); });
  warp.write(op.slots[0], counts, lanes, warp.valid(op.slots[1]));
  return Outcome::kDone;
}

// Counts bytes as a completed copy does. Slots: the address, the bytes.
Outcome run_complete(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_valid(op.slots[0], op, lanes, "the address");
  warp.require_valid(op.slots[1], op, lanes, "the bytes");
  for_each_lane(lanes, [&](int lane) {
    Mbarrier& mbarrier = initialized_mbarrier(warp, op, op.get<MbarrierOperand>(), lane);
    mbarrier.counter = {&warp, &op, lane_bit(lane)};
    warp.require(mbarrier.complete_bytes(warp.read_lane<std::uint32_t>(op.slots[1], lane)),
                 FindingKind::kBarrierMisuse, op, lane_bit(lane));
  });
  return Outcome::kDone;
}

// Slots: the result, the address, the phase's parity or the state.
struct MbarrierWait {
  MbarrierOperand mbarrier{};
  bool has_parity = false;  // waits for a parity; else for the state that an arrival returned
  bool waits = false;       // try_wait waits; test_wait does not
  bool is_relaxed = false;
};

Outcome run_wait(Warp& warp, const Op& op, Lanes lanes) {
  const MbarrierWait& wait = op.get<MbarrierWait>();
  warp.require_valid(op.slots[1], op, lanes, "the address");
  warp.require_valid(op.slots[2], op, lanes, "the phase");
  Lanes ended = 0;
  std::uint64_t awaited_address = 0;
  const Mbarrier* last = nullptr;
  for_each_lane(lanes, [&](int lane) {
    Mbarrier& mbarrier = initialized_mbarrier(warp, op, wait.mbarrier, lane);
    const bool has_ended =
        wait.has_parity ? mbarrier.has_ended(warp.read_lane<std::uint32_t>(op.slots[2], lane))
                        : mbarrier.phase() >
                              Mbarrier::phase_of(warp.read_lane<std::uint64_t>(op.slots[2], lane));
    if (has_ended) {
      ended |= lane_bit(lane);
      mbarrier.awaited_phases = mbarrier.phase();
      if (warp.races() != nullptr && &mbarrier != last) {
        if (!wait.is_relaxed) {
          warp.races()->wait(warp.actor(), mbarrier.sync.sync_point);
        } else {
          warp.races()->wait_relaxed(warp.actor(), mbarrier.sync.sync_point);
        }
        last = &mbarrier;
      }
    } else {
      awaited_address = address_of(warp, wait.mbarrier.address, lane);
    }
  });
  if (ended != lanes && wait.waits) {
    // try_wait may also time out.
    const bool times_out = warp.may_time_out && warp.current().wait_for == WaitFor::kNothing &&
                           (warp.block().grid().random() & 3U) == 0;
    if (!times_out) {
      return warp.wait_for(WaitFor::kMbarrier, static_cast<std::uint32_t>(awaited_address));
    }
  }
  // Acquires what lanes have released on arrival; nothing if only copies complete the phase.
  if (ended != 0 && !wait.is_relaxed) {
    warp.acquire_interval();
  }
  warp.may_time_out = ended == lanes;
  warp.write_predicate(op.slots[0], ended, lanes, kAllLanes);
  return Outcome::kDone;
}

// Takes the memory order and its scope, which matter only to the race detector; true if the order
// is relaxed.
bool take_mbarrier_order(Decoder& decoder, std::string_view order) {
  decoder.take(order);
  const bool is_relaxed = decoder.take("relaxed");
  decoder.take("cta");
  decoder.take("cluster");
  return is_relaxed;
}

void decode_arrival(Decoder& decoder, bool arrives, bool drops) {
  Op& op = decoder.op();
  MbarrierArrival arrival{.arrives = arrives, .drops = drops};
  arrival.must_not_complete = arrives && decoder.take("noComplete");
  const bool expects_bytes = !arrives || decoder.take("expect_tx");
  arrival.is_relaxed = take_mbarrier_order(decoder, "release");
  arrival.mbarrier.space = take_shared_space(decoder);
  std::size_t next = 0;
  if (arrives) {
    // An arrival at another block's mbarrier returns no state.
    const syntax::Operand& state = decoder.operand(0);
    const bool has_state = state.kind != syntax::OperandKind::kAddress;
    next = has_state ? 1 : 0;
    const bool keeps_state = has_state && state.kind != syntax::OperandKind::kSink;
    if (keeps_state && arrival.mbarrier.space == MemorySpace::kClusterShared) {
      decoder.fail("an arrival at another block's mbarrier returns no state");
    }
    decoder.add(keeps_state ? decoder.destination(state, 64) : kNoSlot);
  } else {
    decoder.add(kNoSlot);
  }
  arrival.mbarrier.address = decoder.add_address(next++);
  const bool has_operand = decoder.instruction().operands.size() > next;
  decoder.expect_operands(next + (has_operand || expects_bytes ? 1 : 0));
  const Slot operand = has_operand ? decoder.source(next, Type::kU32) : kNoSlot;
  decoder.add(expects_bytes ? kNoSlot : operand);
  decoder.add(expects_bytes ? operand : kNoSlot);
  op.details.set(arrival);
  op.code = &run_arrive;
}

void decode_wait(Decoder& decoder, bool waits) {
  Op& op = decoder.op();
  MbarrierWait wait{.waits = waits};
  wait.has_parity = decoder.take("parity");
  wait.is_relaxed = take_mbarrier_order(decoder, "acquire");
  wait.mbarrier.space = take_shared_space(decoder);
  decoder.expect_operands(3, waits ? 4 : 3);  // the fourth is a hint for the waiting time
  decoder.add(decoder.destination(0, 1));
  wait.mbarrier.address = decoder.add_address(1);
  decoder.add(decoder.source(2, wait.has_parity ? Type::kU32 : Type::kB64));
  op.details.set(wait);
  op.code = &run_wait;
}

void decode_mbarrier(Decoder& decoder) {
  Op& op = decoder.op();
  const std::string_view suboperation =
      decoder.take_one_of({"init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait",
                           "expect_tx", "complete_tx", "pending_count"});
  if (suboperation == "arrive" || suboperation == "arrive_drop" || suboperation == "expect_tx") {
    decode_arrival(decoder, suboperation != "expect_tx", suboperation == "arrive_drop");
  } else if (suboperation == "pending_count") {
    decoder.expect_operands(2);
    decoder.add(decoder.destination(0, 32));
    decoder.add(decoder.source(1, Type::kB64));
    op.code = &run_pending_count;
  } else if (suboperation == "test_wait" || suboperation == "try_wait") {
    decode_wait(decoder, suboperation == "try_wait");
  } else if (suboperation == "complete_tx") {
    take_mbarrier_order(decoder, "release");
    const MemorySpace space = take_shared_space(decoder);
    decoder.expect_operands(2);
    op.details.set(MbarrierOperand{.address = decoder.add_address(0), .space = space});
    decoder.add(decoder.source(1, Type::kU32));
    op.code = &run_complete;
  } else {
    const MemorySpace space = take_shared_space(decoder);
    op.details.set(MbarrierOperand{.address = decoder.add_address(0), .space = space});
    if (suboperation == "init") {
      decoder.expect_operands(2);
      decoder.add(decoder.source(1, Type::kU32));
    } else {
      decoder.expect_operands(1);
    }
    op.code = suboperation == "init" ? &run_init : &run_inval;
  }
  decoder.require("b64");
}

constexpr std::array kOperations = {Operation{"mbarrier", &decode_mbarrier}};

}  // namespace

Mbarrier& find_mbarrier(Warp& warp, const Op& op, int lane, MemorySpace space,
                        std::uint64_t address) {
  const Memory memory = resolve(warp, op, lane, space, address, kMbarrierBytes);
  Block& block = warp.block().cluster().blocks()[address % kWindowBytes >> kRankShift];
  const auto entry = block.mbarriers.find(shared_offset(address));
  if (entry == block.mbarriers.end()) {
    warp.stop(FindingKind::kBarrierMisuse, op, lane_bit(lane),
              fmt::format("there is no mbarrier at {:#x}", address));
  }
  if (!std::all_of(memory.written, memory.written + kMbarrierBytes,
                   [](std::uint8_t flag) { return flag == kMbarrierMark; })) {
    warp.stop(FindingKind::kBarrierMisuse, op, lane_bit(lane),
              fmt::format("the mbarrier at {:#x} was overwritten", address));
  }
  return entry->second;
}

void require_initialized(Warp& warp, const Op& op, Lanes lanes, const Mbarrier& mbarrier,
                         bool is_async) {
  if (warp.races() == nullptr ||
      warp.races()->is_initialized(warp.actor(), mbarrier.sync, is_async)) {
    return;
  }
  warp.report(
      FindingKind::kRace, op, lanes,
      is_async ? "the mbarrier's initialisation is not ordered before this use by the asynchronous "
                 "proxy; it requires fence.mbarrier_init or fence.proxy.async, and a barrier"
               : "no synchronisation orders the mbarrier's initialisation before this use",
      earlier_access(warp.races()->run(), mbarrier.sync.init));
}

std::span<const Operation> mbarrier_operations() {
  return kOperations;
}

}  // namespace emu
