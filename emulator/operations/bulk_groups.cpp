// Groups of bulk copies, with which a lane waits for its own copies (cp.async.bulk).
#include <algorithm>

#include "emulator/machine/block.hpp"
#include "emulator/machine/tensor_map.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/operations.hpp"

namespace emu {
namespace {

Outcome run_commit(Warp& warp, const Op& /*op*/, Lanes lanes) {
  for_each_lane(lanes, [&](int lane) { ++warp.bulk_groups.at(static_cast<std::size_t>(lane)); });
  if (warp.races() != nullptr) {
    warp.races()->commit(warp.actor(), races::GroupKind::kBulkRead);
    warp.races()->commit(warp.actor(), races::GroupKind::kBulkWrite);
  }
  return Outcome::kDone;
}

struct BulkWait {
  std::int64_t max_pending = 0;       // maximum number of incomplete groups per lane
  bool waits_for_reads_only = false;  // .read: waits only for the reads of sources
};

// Acquires the completed groups in the race detector. Groups are counted over all lanes of the
// warp; usually one lane has all of them.
void acquire_bulk_groups(Warp& warp, const BulkWait& wait, Lanes lanes) {
  bool has_groups = false;
  for_each_lane(lanes, [&](int lane) {
    has_groups = has_groups || warp.bulk_groups.at(static_cast<std::size_t>(lane)) > 0;
  });
  const std::int64_t last =
      std::int64_t{warp.races()->committed(warp.actor(), races::GroupKind::kBulkRead)} -
      wait.max_pending;
  if (!has_groups || last <= 0) {
    return;
  }
  warp.races()->wait_groups(warp.actor(), races::GroupKind::kBulkRead,
                            static_cast<std::uint32_t>(last));
  if (!wait.waits_for_reads_only) {
    warp.races()->wait_groups(warp.actor(), races::GroupKind::kBulkWrite,
                              static_cast<std::uint32_t>(last));
  }
}

// Records a read of the source by the waiting lane, so that other lanes must synchronise with it
// before they overwrite the source.
void record_source_read(Warp& warp, BulkProgress& copy) {
  copy.is_awaited = true;
  if (warp.races() != nullptr) {
    for (const std::uint32_t offset : copy.sources) {
      warp.block().lane_shadow.record(warp.intervals(), copy.lane, operation_number(warp, *copy.op),
                                      false, offset, kBoxUnit);
    }
  }
}

Outcome run_wait(Warp& warp, const Op& op, Lanes lanes) {
  const BulkWait& wait = op.get<BulkWait>();
  const auto must_complete = [&](const BulkProgress& copy) {
    const std::int64_t groups = warp.bulk_groups.at(static_cast<std::size_t>(copy.lane));
    return (lanes & lane_bit(copy.lane)) != 0 && copy.group + wait.max_pending < groups;
  };
  for (const auto& copy : warp.bulk_copies) {
    if (must_complete(*copy) && !copy->is_done && !(wait.waits_for_reads_only && copy->is_read)) {
      return Outcome::kBlocked;
    }
  }
  for (const auto& copy : warp.bulk_copies) {
    if (must_complete(*copy) && !copy->is_awaited) {
      record_source_read(warp, *copy);
    }
  }
  std::erase_if(warp.bulk_copies,
                [](const auto& copy) { return copy->is_done && copy->is_awaited; });
  if (warp.races() != nullptr) {
    acquire_bulk_groups(warp, wait, lanes);
  }
  return Outcome::kDone;
}

}  // namespace

bool decode_bulk_groups(Decoder& decoder) {
  Op& op = decoder.op();
  if (decoder.take("commit_group")) {
    decoder.expect_operands(0);
    op.code = &run_commit;
    return true;
  }
  if (decoder.take("wait_group")) {
    const bool waits_for_reads_only = decoder.take("read");
    decoder.expect_operands(1);
    const BulkWait wait{.max_pending = decoder.immediate(0),
                        .waits_for_reads_only = waits_for_reads_only};
    if (wait.max_pending < 0) {
      decoder.fail("expected a non-negative number of groups");
    }
    op.details.set(wait);
    op.code = &run_wait;
    return true;
  }
  return false;
}

}  // namespace emu
