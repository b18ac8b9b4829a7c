// Bulk copy instructions of the TMA between global and shared memory: cp.async.bulk for plain
// bytes, and for boxes of tensors.

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/atomic_values.hpp"
#include "emulator/operations/bulk_copy.hpp"
#include "emulator/operations/mbarrier.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

// Slots of a copy. `list` holds the coordinates of a box; it is empty for plain bytes.
constexpr std::size_t kShared = 0;  // address in shared memory
constexpr std::size_t kGlobal = 1;  // address in global memory, or that of the tensor map
constexpr std::size_t kMbarrier = 2;
constexpr std::size_t kMask = 3;  // for a multicast
constexpr std::size_t kSize = 4;  // for plain bytes
constexpr std::size_t kPolicy = 5;
constexpr std::array<std::string_view, kMaxOperands> kSlotNames = {
    "the address in shared memory", "the address", "the mbarrier's address",
    "the mask of blocks",           "the size",    "the cache policy"};

struct BulkTransfer {
  AddressOperand shared{};
  AddressOperand global{};       // global memory, or the tensor map
  AddressOperand mbarrier{};     // for a load
  bool is_to_own_block = false;  // load to .shared::cta
  bool is_pair = false;          // cta_group::2: the mbarrier of either block may count
  bool is_between = false;       // a load from the block's own shared memory
  bool is_reduction = false;
  Atomic operation = Atomic::kAdd;  // of a reduction
  Type type = Type::kU32;
};

bool is_half(Type type) {
  return type == Type::kF16 || type == Type::kBF16;
}

void require_multiple(const Warp& warp, const Op& op, int lane, std::string_view name,
                      std::uint64_t value, std::uint64_t unit) {
  if (value % unit != 0) {
    warp.stop(FindingKind::kMisaligned, op, lane_bit(lane),
              fmt::format("{} {:#x} is not a multiple of {}", name, value, unit));
  }
}

std::uint64_t shared_address(const Warp& warp, const Op& op, int lane) {
  return address_of(warp, op.get<BulkTransfer>().shared, lane) % kWindowBytes;
}

// Reports a box that begins inside the swizzle's pattern: code that counts rows from the beginning
// of the box would read other bytes than it expects.
void require_swizzle_start(Warp& warp, const Op& op, int lane, std::uint64_t shared,
                           TensorMapSwizzle swizzle) {
  const std::uint32_t period = swizzle_period(swizzle);
  if (period != 0 && shared % period != 0 && warp.block().grid().checks_swizzle_starts) {
    warp.stop(
        FindingKind::kMisaligned, op, lane_bit(lane),
        fmt::format(
            "the box begins at {:#x} in shared memory, but the pattern of the swizzle of {} bytes "
            "repeats every {} bytes, so that the box begins at byte {} of the pattern",
            shared, swizzle_span(swizzle), period, shared % period));
  }
}

// Reads the tensor map at the lane's address.
TensorMapDesc read_tensor_map(Warp& warp, const Op& op, int lane) {
  const std::uint64_t address = address_of(warp, op.get<BulkTransfer>().global, lane);
  const auto stop_at_map = [&](const std::string& reason) {
    warp.stop(FindingKind::kIllegalTensorMap, op, lane_bit(lane),
              fmt::format("at {:#x}: {}", address, reason));
  };
  if (address / kWindowBytes * kWindowBytes == kSharedWindow ||
      address / kWindowBytes * kWindowBytes == kLocalWindow) {
    stop_at_map("a tensor map must lie in global memory or in a parameter");
  }
  if (address % kTensorMapAlignment != 0) {
    stop_at_map(fmt::format("its address is not a multiple of {}", kTensorMapAlignment));
  }
  const Memory memory =
      resolve_unaligned(warp, op, lane, MemorySpace::kGeneric, address, kTensorMapBytes);
  if (!memory.is_written(0, kTensorMapBytes)) {
    warp.stop(FindingKind::kUninitialized, op, lane_bit(lane),
              fmt::format("the tensor map at {:#x} was never written", address));
  }
  TensorMapDesc map;
  try {
    map = decode_tensor_map({memory.bytes, kTensorMapBytes});
  } catch (const Error& error) {
    stop_at_map(error.what());
  }
  if (static_cast<std::size_t>(map.rank) != op.list.size()) {
    stop_at_map(
        fmt::format("it has {} dimensions, but the instruction has {}", map.rank, op.list.size()));
  }
  return map;
}

// Size of a copy in shared memory, and the alignment of its beginning.
struct Extent {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = kBoxUnit;
};

Extent copy_extent(Warp& warp, const Op& op, int lane, BulkCopy& copy) {
  if (!op.list.empty()) {
    copy.map = read_tensor_map(warp, op, lane);
    return {.bytes = box_shape(copy.map).extent(), .alignment = kBoxAlignment};
  }
  const auto size = warp.read_lane<std::uint32_t>(op.slots[kSize], lane);
  require_multiple(warp, op, lane, "the size", size, kBoxUnit);
  return {.bytes = size};
}

// Adds the pieces of a copy. `shared` is an offset in a block's memory, where the copy fits.
void add_pieces(Warp& warp, const Op& op, int lane, std::uint32_t shared, const Extent& extent,
                BulkCopy& copy) {
  if (op.list.empty()) {
    std::uint64_t global = address_of(warp, op.get<BulkTransfer>().global, lane);
    require_multiple(warp, op, lane, "the address", global, kBoxUnit);
    if (copy.source != nullptr) {
      resolve_unaligned(warp, op, lane, MemorySpace::kShared, global, extent.bytes);
      global &= kOffsetMask;
    }
    copy.pieces = split_bytes(global, shared, static_cast<std::uint32_t>(extent.bytes));
    return;
  }
  const bool is_store = op.slots[kMbarrier] == kNoSlot;
  std::array<std::int32_t, 5> coordinates{};
  for (std::size_t i = 0; i < op.list.size(); ++i) {
    coordinates.at(i) = warp.read_lane<std::int32_t>(op.list[i], lane);
    // A store skips elements behind the end, but the box must not begin before the tensor (PTX ISA,
    // restrictions on tensor copies to global memory). An H100 stops with an illegal instruction.
    if (coordinates.at(i) < 0 && is_store) {
      warp.stop(
          FindingKind::kIllegalOperand, op, lane_bit(lane),
          fmt::format("coordinate {} is {}: a box that is stored may not begin before the tensor",
                      i, coordinates.at(i)));
    }
  }
  // Undocumented restriction: an H100 stops with an illegal instruction.
  const std::int64_t begin = std::int64_t{coordinates[0]} * bytes_of_element(copy.map.type);
  if (begin % kBoxUnit != 0) {
    warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
              fmt::format("coordinate 0 is {}: {} bytes, not a multiple of {}", coordinates[0],
                          begin, kBoxUnit));
  }
  copy.pieces = split_box(copy.map, shared, coordinates, is_store);
}

// Returns the destination blocks of a load, and the blocks whose mbarriers count it: without
// cta_group::2, each block's own.
std::vector<BulkTarget> load_targets(Warp& warp, const Op& op, int lane, std::uint64_t shared,
                                     std::uint32_t mbarrier_rank) {
  const bool is_pair = op.get<BulkTransfer>().is_pair;
  const auto target = [&](std::uint32_t rank) {
    return BulkTarget{rank, is_pair ? (rank & ~1U) | (mbarrier_rank & 1U) : rank};
  };
  if (op.slots[kMask] == kNoSlot) {
    return {target(static_cast<std::uint32_t>(shared >> kRankShift))};
  }
  const std::uint32_t mask = warp.read_lane<std::uint16_t>(op.slots[kMask], lane);
  const std::size_t blocks = warp.block().cluster().blocks().size();
  if (mask == 0 || mask >> blocks != 0) {
    warp.stop(
        FindingKind::kIllegalOperand, op, lane_bit(lane),
        fmt::format("the mask of blocks is {:#x}, but the cluster has {} blocks", mask, blocks));
  }
  std::vector<BulkTarget> targets;
  for (std::uint32_t remaining = mask; remaining != 0; remaining &= remaining - 1) {
    targets.push_back(target(static_cast<std::uint32_t>(std::countr_zero(remaining))));
  }
  return targets;
}

// Calls use() for each swizzled unit of a copy's bytes in shared memory.
template <typename Use>
void for_each_shared_unit(const BulkCopy& copy, Use&& use) {
  for (const CopyPiece& piece : copy.pieces) {
    for_each_unit(copy, piece, [&](std::uint32_t offset, std::uint32_t /*from*/) { use(offset); });
  }
}

template <typename Use>
void for_each_global_part(const BulkCopy& copy, Use&& use) {
  for (const CopyPiece& piece : copy.pieces) {
    if (piece.first < piece.last) {
      use(resolve_global(copy, piece), piece.last - piece.first);
    }
  }
}

std::size_t bytes_of_pieces(const BulkCopy& copy) {
  std::size_t bytes = 0;
  for (const CopyPiece& piece : copy.pieces) {
    bytes += piece.bytes;
  }
  return bytes;
}

void check_load(const BulkCopy& copy, const std::vector<BulkTarget>& targets,
                const std::vector<Mbarrier*>& mbarriers) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    AsyncAccesses accesses(copy.warp, copy.op, lane_bit(copy.lane), *mbarriers[i]);
    if (copy.reduces()) {
      accesses.make_strong();
    }
    Block& block = copy.warp.block().cluster().blocks()[targets[i].rank];
    for_each_shared_unit(
        copy, [&](std::uint32_t offset) { accesses.write_shared(block, offset, kBoxUnit); });
    if (i == 0) {
      for_each_global_part(copy, [&](const Memory& memory, std::size_t bytes) {
        if (copy.source == nullptr) {
          accesses.read_global(memory, bytes);
        } else {
          accesses.read_shared(
              *copy.source, static_cast<std::uint32_t>(memory.bytes - copy.source->shared.data()),
              bytes);
        }
      });
    }
  }
}

void check_store(const BulkCopy& copy) {
  const AsyncAccesses from(copy.warp, copy.op, lane_bit(copy.lane), races::GroupKind::kBulkRead);
  AsyncAccesses to(copy.warp, copy.op, lane_bit(copy.lane), races::GroupKind::kBulkWrite);
  if (copy.reduces()) {
    to.make_strong();
  }
  for_each_shared_unit(
      copy, [&](std::uint32_t offset) { from.read_shared(copy.warp.block(), offset, kBoxUnit); });
  for_each_global_part(
      copy, [&](const Memory& memory, std::size_t bytes) { to.write_global(memory, bytes); });
}

BulkCopy begin_copy(Warp& warp, const Op& op, int lane) {
  const BulkTransfer& transfer = op.get<BulkTransfer>();
  BulkCopy copy{.warp = warp, .op = op, .lane = lane};
  if (transfer.is_between) {
    copy.source = &warp.block();
  }
  if (transfer.is_reduction) {
    copy.reduction = atomic_code(transfer.type, transfer.operation, is_half(transfer.type));
  }
  return copy;
}

void start_load(Warp& warp, const Op& op, int lane) {
  BulkCopy copy = begin_copy(warp, op, lane);
  const Extent extent = copy_extent(warp, op, lane, copy);
  const std::uint64_t shared = shared_address(warp, op, lane);
  const BulkTransfer& transfer = op.get<BulkTransfer>();
  const std::uint64_t mbarrier = address_of(warp, transfer.mbarrier, lane) % kWindowBytes;
  require_multiple(warp, op, lane, "the address in shared memory", shared, extent.alignment);
  require_swizzle_start(warp, op, lane, shared, copy.map.swizzle);
  const auto offset = static_cast<std::uint32_t>(shared & kOffsetMask);
  const auto mbarrier_offset = static_cast<std::uint32_t>(mbarrier & kOffsetMask);
  resolve_unaligned(warp, op, lane,
                    transfer.is_to_own_block ? MemorySpace::kShared : MemorySpace::kClusterShared,
                    shared, extent.bytes);
  // The mbarrier of either block of a pair (cta_group::2) may count the bytes; for a multicast,
  // that of the block of the same parity in each pair.
  const std::uint64_t rank_difference = (shared ^ mbarrier) >> kRankShift;
  if (rank_difference > (transfer.is_pair ? 1 : 0)) {
    warp.stop(FindingKind::kIllegalOperand, op, lane_bit(lane),
              fmt::format("the mbarrier {:#x} is in another {} than the destination {:#x}",
                          mbarrier, transfer.is_pair ? "pair of blocks" : "block", shared));
  }
  // A multicast writes to the same offset in each block, whichever block the addresses name.
  const std::vector<BulkTarget> targets =
      load_targets(warp, op, lane, shared, static_cast<std::uint32_t>(mbarrier >> kRankShift));
  std::vector<Mbarrier*> mbarriers;
  for (const BulkTarget& target : targets) {
    const std::uint64_t base = std::uint64_t{target.mbarrier_rank} << kRankShift;
    Mbarrier& counter =
        find_mbarrier(warp, op, lane, MemorySpace::kClusterShared, base | mbarrier_offset);
    // Plain copies of a block alone run with a barrier behind the initialisation, as libcu++ has
    // it.
    const bool needs_fence = !op.list.empty() || warp.block().cluster().blocks().size() > 1;
    require_initialized(warp, op, lane_bit(lane), counter, needs_fence);
    mbarriers.push_back(&counter);
  }
  add_pieces(warp, op, lane, offset, extent, copy);
  if (warp.races() != nullptr && !copy.pieces.empty()) {
    check_load(copy, targets, mbarriers);
  }
  if (!copy.pieces.empty()) {
    for (Mbarrier* const counter : mbarriers) {
      counter->begin_copy(bytes_of_pieces(copy));
    }
    warp.block().cluster().start(
        std::make_unique<BulkLoad>(std::move(copy), targets, mbarrier_offset));
  }
}

void start_store(Warp& warp, const Op& op, int lane) {
  BulkCopy copy = begin_copy(warp, op, lane);
  const Extent extent = copy_extent(warp, op, lane, copy);
  const std::uint64_t shared = shared_address(warp, op, lane);
  require_multiple(warp, op, lane, "the address in shared memory", shared, extent.alignment);
  require_swizzle_start(warp, op, lane, shared, copy.map.swizzle);
  resolve_unaligned(warp, op, lane, MemorySpace::kShared, shared, extent.bytes);
  add_pieces(warp, op, lane, static_cast<std::uint32_t>(shared & kOffsetMask), extent, copy);
  if (copy.pieces.empty()) {
    return;
  }
  for_each_global_part(copy, [&](const Memory& memory, std::size_t /*bytes*/) {
    const auto offset = static_cast<std::uint64_t>(memory.bytes - memory.allocation->bytes.data());
    require_writable(warp, op, lane_bit(lane), memory, memory.allocation->address + offset);
  });
  if (warp.races() != nullptr) {
    check_store(copy);
  }
  auto progress = std::make_shared<BulkProgress>(BulkProgress{
      .op = &op, .lane = lane, .group = warp.bulk_groups.at(static_cast<std::size_t>(lane))});
  for_each_shared_unit(copy, [&](std::uint32_t offset) { progress->sources.push_back(offset); });
  warp.bulk_copies.push_back(progress);
  warp.block().cluster().start(std::make_unique<BulkStore>(std::move(copy), std::move(progress)));
}

// Whether a lane's store is that of another lane. CUTLASS has all lanes of a warp issue the same
// one, which is made once.
bool has_operands_of(const Warp& warp, const Op& op, int lane, int other) {
  const BulkTransfer& transfer = op.get<BulkTransfer>();
  const auto is_same = [&](Slot slot) {
    return slot == kNoSlot ||
           warp.read_lane<std::uint32_t>(slot, lane) == warp.read_lane<std::uint32_t>(slot, other);
  };
  return address_of(warp, transfer.shared, lane) == address_of(warp, transfer.shared, other) &&
         address_of(warp, transfer.global, lane) == address_of(warp, transfer.global, other) &&
         is_same(op.slots[kSize]) && std::ranges::all_of(op.list, is_same);
}

// Whether a lane's store is that of one of these lanes.
bool repeats(const Warp& warp, const Op& op, int lane, Lanes others) {
  for (; others != 0; others &= others - 1) {
    if (has_operands_of(warp, op, lane, std::countr_zero(others))) {
      return true;
    }
  }
  return false;
}

Outcome run_copy(Warp& warp, const Op& op, Lanes lanes) {
  for (std::size_t i = 0; i < kMaxOperands; ++i) {
    if (op.slots.at(i) != kNoSlot) {
      warp.require_valid(op.slots.at(i), op, lanes, kSlotNames.at(i));
    }
  }
  for (const Slot coordinate : op.list) {
    warp.require_valid(coordinate, op, lanes, "a coordinate");
  }
  const bool is_load = op.slots[kMbarrier] != kNoSlot;
  const bool is_reduction = op.get<BulkTransfer>().is_reduction;
  Lanes stored = 0;  // lanes whose stores are no others'
  for_each_lane(lanes, [&](int lane) {
    if (is_load) {
      start_load(warp, op, lane);
    } else if (is_reduction || !repeats(warp, op, lane, stored)) {
      start_store(warp, op, lane);
      stored |= lane_bit(lane);
    }
  });
  return Outcome::kDone;
}

// Takes the address in [map, {coordinates}], or in [address].
AddressOperand take_address(const Decoder& decoder, const syntax::Operand& operand) {
  syntax::Operand base = operand;
  if (base.kind == syntax::OperandKind::kAddress) {
    base.parts.resize(1);
  }
  return decoder.address(base);
}

void take_coordinates(Decoder& decoder, const syntax::Operand& operand, std::size_t dims) {
  if (operand.parts.size() != 2 || operand.parts[1].parts.size() != dims) {
    decoder.fail(fmt::format("expected [a tensor map, {{{} coordinates}}]", dims));
  }
  for (const syntax::Operand& coordinate : operand.parts[1].parts) {
    decoder.op().list.push_back(decoder.source(coordinate, Type::kS32));
  }
}

// Takes the operation of cp.reduce.
void take_reduction(Decoder& decoder, bool is_tensor, BulkTransfer& transfer) {
  if (is_tensor) {
    decoder.fail("reductions of tensors are not supported");
  }
  transfer.is_reduction = true;
  transfer.operation = static_cast<Atomic>(decoder.take_index_of(kAtomicNames));
  transfer.type = decoder.take_type();
  if (is_half(transfer.type) && transfer.operation == Atomic::kAdd) {
    decoder.require("noftz");
  }
  const bool is_move =
      transfer.operation == Atomic::kExchange || transfer.operation == Atomic::kCompareAndSwap;
  if (is_move ||
      atomic_code(transfer.type, transfer.operation, is_half(transfer.type)).global == nullptr) {
    decoder.fail("unsupported reduction");
  }
}

// Decodes a prefetch, a hint without effect; its operands are not checked.
void decode_prefetch(Decoder& decoder, bool is_tensor) {
  decoder.require("L2");
  decoder.require("global");
  const bool has_policy = decoder.take("L2::cache_hint");
  decoder.expect_operands((is_tensor ? 1U : 2U) + (has_policy ? 1U : 0U));
  decoder.op().code = &run_nothing;
}

void decode_copy(Decoder& decoder) {
  Op& op = decoder.op();
  const bool is_tensor = decoder.take("tensor");
  std::size_t dims = 0;
  if (is_tensor) {
    dims =
        static_cast<std::size_t>(decoder.take_one_of({"1d", "2d", "3d", "4d", "5d"}).front() - '0');
    decoder.take("tile");
  }
  if (decoder.take("prefetch")) {
    decode_prefetch(decoder, is_tensor);
    return;
  }
  BulkTransfer transfer;
  if (decoder.take("reduce")) {
    take_reduction(decoder, is_tensor, transfer);
  }
  const bool is_load = decoder.take("mbarrier::complete_tx::bytes");
  if (!is_load) {
    decoder.require("bulk_group");
  }
  const bool is_cluster = is_load && decoder.take("shared::cluster");
  transfer.is_between = is_cluster && !is_tensor && decoder.take("shared::cta");
  if (!transfer.is_between) {
    decoder.require("global");
  }
  if (!is_cluster) {
    decoder.require("shared::cta");
  }
  const bool is_multicast =
      is_cluster && !transfer.is_between && decoder.take("multicast::cluster");
  transfer.is_to_own_block = is_load && !is_cluster;
  if (transfer.is_reduction && is_load && !transfer.is_between) {
    decoder.fail("a reduction into shared memory reads shared memory");
  }
  if (is_load && is_tensor) {
    transfer.is_pair = decoder.take("cta_group::2");
    if (!transfer.is_pair) {
      decoder.take("cta_group::1");
    }
  }
  const bool has_policy = decoder.take("L2::cache_hint");
  decoder.finish();
  decoder.expect_operands(std::size_t{2} + (is_tensor ? 0 : 1) + (is_load ? 1 : 0) +
                          (is_multicast ? 1 : 0) + (has_policy ? 1 : 0));

  const syntax::Operand& global_operand = decoder.operand(is_load ? 1 : 0);
  transfer.global = take_address(decoder, global_operand);
  if (transfer.global.bits != 64 && !transfer.is_between) {
    decoder.fail("an address in global memory must have 64 bits");
  }
  if (is_tensor) {
    take_coordinates(decoder, global_operand, dims);
  } else if (global_operand.parts.size() != 1) {
    decoder.fail("expected [an address]");
  }
  std::size_t next = 2;
  if (!is_tensor) {
    op.slots[kSize] = decoder.source(next++, Type::kU32);
  }
  if (is_load) {
    transfer.mbarrier = take_address(decoder, decoder.operand(next++));
    op.slots[kMbarrier] = transfer.mbarrier.slot;
  }
  if (is_multicast) {
    op.slots[kMask] = decoder.source(next++, Type::kU16);
  }
  if (has_policy) {
    op.slots[kPolicy] = decoder.source(next++, Type::kB64);
  }
  transfer.shared = take_address(decoder, decoder.operand(is_load ? 0 : 1));
  op.slots[kShared] = transfer.shared.slot;
  op.slots[kGlobal] = transfer.global.slot;
  op.details.set(transfer);
  op.code = &run_copy;
}

}  // namespace

void decode_bulk_copy(Decoder& decoder) {
  if (!decode_bulk_groups(decoder)) {
    decode_copy(decoder);
  }
}

}  // namespace emu
