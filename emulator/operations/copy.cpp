// Asynchronous copies from global to shared memory: cp.async, its groups, waits and arrivals.
//
// Until a lane has waited, the destination counts as uninitialised. The bytes are read and copied
// either at once or at the wait, as the seed determines.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/mbarrier.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

constexpr auto kCopyKind = races::GroupKind::kCopy;

Memory resolve_destination(Warp& warp, const PendingCopy& copy) {
  return resolve(warp, *copy.op, copy.lane, MemorySpace::kShared, copy.destination, copy.bytes);
}

void copy_bytes(Warp& warp, const PendingCopy& copy) {
  if (const Tracer* const tracer = warp.block().grid().tracer; tracer != nullptr) {
    tracer->record(TraceKind::kCopy, warp, *copy.op, lane_bit(copy.lane));
  }
  const Memory destination = resolve_destination(warp, copy);
  std::memset(destination.bytes, 0, copy.bytes);
  if (copy.source_bytes > 0) {
    const Memory source = resolve_unaligned(warp, *copy.op, copy.lane, MemorySpace::kGlobal,
                                            copy.source, copy.source_bytes);
    std::memcpy(destination.bytes, source.bytes, copy.source_bytes);
  }
}

// Copies the bytes, if that has not been done, and makes them visible: to the lane that has waited,
// or to those that wait for the phase of an mbarrier.
void finish(Warp& warp, const PendingCopy& copy, const Mbarrier* mbarrier = nullptr) {
  if (copy.is_finished != nullptr && std::exchange(*copy.is_finished, true)) {
    return;
  }
  if (!copy.is_copied) {
    copy_bytes(warp, copy);
  }
  const Memory destination = resolve_destination(warp, copy);
  destination.set_written(0, copy.bytes, true);
  warp.notify_races([&](const races::ClusterRaces& races, races::Actor actor) {
    const std::uint32_t operation = operation_number(warp, *copy.op);
    Accesses written(warp, *copy.op, lane_bit(copy.lane));
    written.add(destination, copy.bytes);
    written.settle(mbarrier == nullptr ? races.settled_access(actor, operation)
                                       : races.counted_access(actor, operation, mbarrier->sync));
  });
  if (mbarrier == nullptr) {
    LaneAccesses(warp, *copy.op).record(copy.lane, destination, copy.bytes, true);
  }
  if (copy.source_bytes > 0) {
    const Memory source = resolve_unaligned(warp, *copy.op, copy.lane, MemorySpace::kGlobal,
                                            copy.source, copy.source_bytes);
    for (std::size_t i = 0; i < copy.source_bytes; ++i) {
      destination.set_written(i, 1, source.is_written(i, 1));
    }
  }
}

// Slots: the destination, the source, the number of source bytes (optional).
struct AsyncCopy {
  AddressOperand destination{};  // in shared memory
  AddressOperand source{};       // in global memory
  std::uint8_t bytes = 0;
};

Outcome run_copy(Warp& warp, const Op& op, Lanes lanes) {
  const AsyncCopy& details = op.get<AsyncCopy>();
  warp.require_valid(op.slots[0], op, lanes, "the address in shared memory");
  warp.require_valid(op.slots[1], op, lanes, "the address in global memory");
  if (op.slots[2] != kNoSlot) {
    warp.require_valid(op.slots[2], op, lanes, "the number of bytes");
  }
  Accesses sources(warp, op, lanes);
  Accesses destinations(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op);
  const std::uint32_t number =
      warp.races() == nullptr ? 0 : warp.races()->committed(warp.actor(), kCopyKind) + 1;
  const bool is_delayed = (warp.block().grid().random() & 1U) != 0;
  for_each_lane(lanes, [&](int lane) {
    PendingCopy copy{
        .lane = lane,
        .destination = static_cast<std::uint32_t>(address_of(warp, details.destination, lane)),
        .source = address_of(warp, details.source, lane),
        .source_bytes = details.bytes,
        .bytes = details.bytes,
        .is_copied = !is_delayed,
        .number = number,
        .op = &op};
    if (op.slots[2] != kNoSlot) {
      copy.source_bytes =
          std::min<std::size_t>(warp.read_lane<std::uint32_t>(op.slots[2], lane), copy.bytes);
    }
    if (copy.source % copy.bytes != 0) {
      warp.stop(FindingKind::kMisaligned, op, lane_bit(lane),
                fmt::format("the address {:#x} is not a multiple of {}", copy.source, copy.bytes));
    }
    if (copy.source_bytes > 0) {
      sources.add(
          resolve_unaligned(warp, op, lane, MemorySpace::kGlobal, copy.source, copy.source_bytes),
          copy.source_bytes);
    }
    const Memory destination = resolve_destination(warp, copy);
    destinations.add(destination, copy.bytes);
    lane_accesses.check(lane, destination, copy.bytes, true);
    destination.set_written(0, copy.bytes, false);
    std::memset(destination.bytes, 0xCB, copy.bytes);
    if (copy.is_copied) {
      copy_bytes(warp, copy);
    }
    warp.open_copies.push_back(copy);
  });
  sources.check_copy_read();
  destinations.check_copy_write();
  warp.notify_races([](auto& races, auto actor) { races.commit(actor, kCopyKind); });
  return Outcome::kDone;
}

Outcome run_commit(Warp& warp, const Op& /*op*/, Lanes lanes) {
  CopyGroup group{.lanes = lanes};
  std::erase_if(warp.open_copies, [&](const PendingCopy& copy) {
    const bool is_grouped = (lanes >> static_cast<unsigned>(copy.lane) & 1U) != 0;
    if (is_grouped) {
      group.copies.push_back(copy);
    }
    return is_grouped;
  });
  warp.copy_groups.push_back(std::move(group));
  return Outcome::kDone;
}

// Finishes and removes the lane's copies.
void finish_lane(Warp& warp, std::vector<PendingCopy>& copies, int lane) {
  std::erase_if(copies, [&](const PendingCopy& copy) {
    if (copy.lane != lane) {
      return false;
    }
    finish(warp, copy);
    return true;
  });
}

// Returns the number of the last cp.async of the warp before the first that some lane has not
// finished, in a group or in none.
std::uint32_t last_finished_copy(const Warp& warp) {
  std::uint32_t last = warp.races()->committed(warp.actor(), kCopyKind);
  const auto limit = [&](const std::vector<PendingCopy>& copies) {
    if (!copies.empty()) {
      last = std::min(last, copies.front().number - 1);
    }
  };
  limit(warp.open_copies);
  for (const CopyGroup& group : warp.copy_groups) {
    limit(group.copies);
  }
  return last;
}

struct CopyWait {
  int max_pending = 0;         // maximum number of incomplete groups per lane
  bool waits_for_all = false;  // wait_all: includes copies that are in no group
};

Outcome run_wait(Warp& warp, const Op& op, Lanes lanes) {
  const CopyWait& wait = op.get<CopyWait>();
  for_each_lane(lanes, [&](int lane) {
    int newer_groups = 0;
    for (auto group = warp.copy_groups.rbegin(); group != warp.copy_groups.rend(); ++group) {
      if ((group->lanes >> static_cast<unsigned>(lane) & 1U) == 0) {
        continue;
      }
      if (newer_groups++ >= wait.max_pending) {
        finish_lane(warp, group->copies, lane);
        group->lanes &= ~lane_bit(lane);
      }
    }
    if (wait.waits_for_all) {
      finish_lane(warp, warp.open_copies, lane);
    }
  });
  while (!warp.copy_groups.empty() && warp.copy_groups.front().lanes == 0) {
    warp.copy_groups.pop_front();
  }
  warp.notify_races([&](auto& races, auto actor) {
    races.wait_groups(actor, kCopyKind, last_finished_copy(warp));
  });
  return Outcome::kDone;
}

// The arrival of a lane at an mbarrier when its copies so far have ended.
class CopyArrival : public AsyncWork {
 public:
  CopyArrival(Warp& warp, const Op& op, int lane, std::uint64_t mbarrier,
              std::vector<PendingCopy> copies)
      : AsyncWork(warp, op, lane_bit(lane)),
        lane_(lane),
        mbarrier_(mbarrier),
        copies_(std::move(copies)) {}

  bool step(std::mt19937_64& /*random*/) override {
    Mbarrier& mbarrier = find_mbarrier(warp(), op(), lane_, MemorySpace::kShared, mbarrier_);
    for (const PendingCopy& copy : copies_) {
      finish(warp(), copy, &mbarrier);
    }
    const auto is_finished = [](const PendingCopy& copy) {
      return copy.is_finished != nullptr && *copy.is_finished;
    };
    std::erase_if(warp().open_copies, is_finished);
    for (CopyGroup& group : warp().copy_groups) {
      std::erase_if(group.copies, is_finished);
    }
    warp().notify_races([&](auto& races, auto actor) {
      races.release_copies(actor, mbarrier.sync, last_finished_copy(warp()));
    });
    warp().require(mbarrier.arrive(1), FindingKind::kBarrierMisuse, op(), lanes());
    return true;
  }
  [[nodiscard]] bool needs(const Block& block) const override { return &block == &warp().block(); }

 private:
  int lane_;
  std::uint64_t mbarrier_;
  std::vector<PendingCopy> copies_;
};

struct CopyArrivalOperand {
  AddressOperand mbarrier{};
  bool adds_arrival = true;  // without .noinc: the phase awaits the arrival on top of the others
};

// Slots: the mbarrier's address.
Outcome run_copy_arrival(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [operand, adds_arrival] = op.get<CopyArrivalOperand>();
  warp.require_valid(op.slots[0], op, lanes, "the address");
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, operand, lane);
    Mbarrier& mbarrier = find_mbarrier(warp, op, lane, MemorySpace::kShared, address);
    require_initialized(warp, op, lane_bit(lane), mbarrier, false);
    if (adds_arrival) {
      warp.require(mbarrier.add_arrival(), FindingKind::kBarrierMisuse, op, lane_bit(lane));
    }
    std::vector<PendingCopy> copies;
    const auto add = [&](std::vector<PendingCopy>& pending) {
      for (PendingCopy& copy : pending) {
        if (copy.lane == lane) {
          if (copy.is_finished == nullptr) {
            copy.is_finished = std::make_shared<bool>(false);
          }
          copies.push_back(copy);
        }
      }
    };
    for (CopyGroup& group : warp.copy_groups) {
      add(group.copies);
    }
    add(warp.open_copies);
    warp.block().cluster().start(
        std::make_unique<CopyArrival>(warp, op, lane, address, std::move(copies)));
  });
  return Outcome::kDone;
}

void decode_copy_arrival(Decoder& decoder) {
  Op& op = decoder.op();
  decoder.require("arrive");
  CopyArrivalOperand details;
  details.adds_arrival = !decoder.take("noinc");
  take_shared_space(decoder);
  decoder.require("b64");
  decoder.expect_operands(1);
  details.mbarrier = decoder.add_address(0);
  op.details.set(details);
  op.code = &run_copy_arrival;
}

void decode_copy(Decoder& decoder) {
  Op& op = decoder.op();
  const std::string_view cache_operator = decoder.take_one_of({"ca", "cg"});
  require_shared(decoder);
  decoder.require("global");
  for (const std::string_view hint : {"L2::64B", "L2::128B", "L2::256B"}) {
    decoder.take(hint);
  }
  decoder.expect_operands(3, 4);
  const AddressOperand source = decoder.address(decoder.operand(1));
  if (source.bits != 64) {
    decoder.fail("an address in global memory must have 64 bits");
  }
  const AddressOperand destination = decoder.add_address(0);
  decoder.add(source.slot);
  const std::uint8_t bytes = decoder.small_immediate(2);
  if (bytes != 16 && (cache_operator == "cg" || (bytes != 4 && bytes != 8))) {
    decoder.fail(fmt::format("unsupported size of {} bytes", bytes));
  }
  op.details.set(AsyncCopy{.destination = destination, .source = source, .bytes = bytes});
  decoder.add(decoder.instruction().operands.size() == 4 ? decoder.source(3, Type::kU32) : kNoSlot);
  op.code = &run_copy;
}

void decode_cp(Decoder& decoder) {
  decoder.require("async");
  if (decoder.take("bulk")) {
    decode_bulk_copy(decoder);
    return;
  }
  Op& op = decoder.op();
  if (decoder.take("commit_group")) {
    decoder.expect_operands(0);
    op.code = &run_commit;
  } else if (decoder.take("wait_group")) {
    decoder.expect_operands(1);
    op.details.set(CopyWait{.max_pending = decoder.small_immediate(0)});
    op.code = &run_wait;
  } else if (decoder.take("wait_all")) {
    decoder.expect_operands(0);
    op.details.set(CopyWait{.waits_for_all = true});
    op.code = &run_wait;
  } else if (decoder.take("mbarrier")) {
    decode_copy_arrival(decoder);
  } else {
    decode_copy(decoder);
  }
}

constexpr std::array kOperations = {Operation{"cp", &decode_cp}};

}  // namespace

std::span<const Operation> copy_operations() {
  return kOperations;
}

}  // namespace emu
