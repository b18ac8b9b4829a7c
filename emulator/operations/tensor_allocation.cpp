// Allocation of tensor memory: tcgen05.alloc, dealloc, relinquish_alloc_permit (PTX ISA 9.7.16.7).
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"
#include "emulator/operations/tensor_accesses.hpp"

namespace emu {
namespace {

std::size_t column_count(Warp& warp, const Op& op, Lanes lanes) {
  const std::uint32_t columns = uniform_value(
      warp, op, op.slots[1], lanes, FindingKind::kIllegalOperand, "the number of columns");
  if (columns < 32 || columns > kTensorColumns || !std::has_single_bit(columns)) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("the number of columns must be a power of two from 32 to 512, got {}",
                          columns));
  }
  return columns;
}

// Returns the index of the pair's operation that the warp's block joins; both blocks must execute
// the same one.
std::size_t join_pair_operation(Warp& warp, const Op& op, Lanes lanes, bool is_allocation,
                                std::size_t columns) {
  TensorMemory& pair = tensor_block(warp, 2, 0).tensor;
  const std::size_t number = tensor_block_number(warp, 2);
  const std::size_t index = pair.begun_operations.at(number)++;
  if (index == pair.pair_operations.size()) {
    pair.pair_operations.push_back({.is_allocation = is_allocation, .columns = columns, .op = &op});
  }
  PairOperation& operation = pair.pair_operations[index];
  if (operation.is_allocation != is_allocation || operation.columns != columns) {
    warp.stop(FindingKind::kDivergent, op, lanes,
              fmt::format("the other block of the pair executes {} of {} columns (line {}) "
                          "where this block executes one of {}",
                          operation.op->instruction->opcode, operation.columns,
                          operation.op->instruction->line, columns));
  }
  operation.has_arrived.at(number) = true;
  return index;
}

// Allocates columns in all of these blocks, once all earlier operations of the pair have completed;
// returns nothing if that must wait.
std::optional<std::size_t> try_allocate(Warp& warp, const Op& op, std::size_t blocks,
                                        std::size_t columns, std::size_t index) {
  TensorMemory& first = tensor_block(warp, blocks, 0).tensor;
  const TensorAllocation allocation{.columns = columns, .warp = &warp, .op = &op};
  const auto allocate = [&](TensorMemory& memory, std::size_t column) {
    TensorAllocation block_allocation = allocation;
    block_allocation.first = column;
    memory.allocate(block_allocation);
  };
  if (blocks == 1) {
    const auto column = first.find_free_columns(columns);
    if (column.has_value()) {
      allocate(first, *column);
    }
    return column;
  }
  PairOperation& operation = first.pair_operations[index];
  if (!operation.first.has_value()) {
    if (!operation.has_arrived[0] || !operation.has_arrived[1]) {
      return std::nullopt;
    }
    TensorMemory& second = tensor_block(warp, blocks, 1).tensor;
    const auto column = first.find_free_columns(columns);
    if (!column.has_value() || second.find_free_columns(columns) != column) {
      return std::nullopt;
    }
    allocate(first, *column);
    allocate(second, *column);
    operation.first = column;
  }
  return operation.first;
}

// Slots: the address in shared memory, the number of columns.
struct TensorAlloc {
  std::size_t blocks = 1;
  AddressOperand address{};
  MemorySpace space = MemorySpace::kGeneric;
};

Outcome run_alloc(Warp& warp, const Op& op, Lanes lanes) {
  const auto& [blocks, operand, space] = op.get<TensorAlloc>();
  warp.require_all_lanes(op, lanes);
  Split& split = warp.current();
  require_tensor_blocks(warp, op, lanes, blocks);
  const std::size_t columns = column_count(warp, op, lanes);
  TensorMemory& own_memory = warp.block().tensor;
  if (split.ticket < 0) {
    warp.require_valid(op.slots[0], op, lanes, "the address");
    if (own_memory.relinquished_by != nullptr) {
      warp.stop(FindingKind::kIllegalOperand, op, lanes,
                fmt::format("the block has relinquished its right to allocate with {} (line {})",
                            own_memory.relinquished_by->instruction->opcode,
                            own_memory.relinquished_by->instruction->line));
    }
    if (columns > own_memory.last_columns) {
      warp.stop(FindingKind::kIllegalOperand, op, lanes,
                fmt::format(
                    "it allocates {} columns, more than the {} of the block's previous allocation",
                    columns, own_memory.last_columns));
    }
    own_memory.last_columns = columns;
    split.ticket =
        blocks == 1
            ? 0
            : static_cast<std::int64_t>(join_pair_operation(warp, op, lanes, true, columns));
  }
  const auto index = static_cast<std::size_t>(split.ticket);
  const auto column = try_allocate(warp, op, blocks, columns, index);
  if (!column.has_value()) {
    return warp.wait_for(WaitFor::kTensorAllocation, static_cast<std::uint32_t>(columns));
  }
  split.ticket = -1;
  const int lane = std::countr_zero(lanes);
  const Memory memory = resolve_own_shared(warp, op, lane, space, address_of(warp, operand, lane),
                                           4, FindingKind::kOutOfBounds);
  const auto address = static_cast<std::uint32_t>(*column);
  std::memcpy(memory.bytes, &address, sizeof(address));
  memory.set_written(0, sizeof(address), true);
  Accesses accesses(warp, op, lanes);
  accesses.add(memory, sizeof(address));
  accesses.check_write();
  return Outcome::kDone;
}

// Checks that all accesses to the columns, by either block of a pair, happen before the
// deallocation.
void check_end(Warp& warp, const Op& op, Lanes lanes, std::size_t blocks, std::size_t first,
               std::size_t columns) {
  if (warp.races() == nullptr) {
    return;
  }
  const races::TensorView view = warp.races()->tensor_end(warp.actor(), operation_number(warp, op));
  for (std::size_t i = 0; i < blocks; ++i) {
    Block& block = tensor_block(warp, blocks, i);
    if (const auto conflict = block.tensor.shadow.find(view, first, columns)) {
      report_conflict(warp, op, lanes, *conflict, true,
                      "the columns that it deallocates, " + tensor_place_text(block, *conflict));
    }
  }
}

// Details of dealloc and relinquish_alloc_permit.
struct TensorGroup {
  std::size_t blocks = 1;
};

// Slots: the address in tensor memory, the number of columns.
Outcome run_dealloc(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_all_lanes(op, lanes);
  Split& split = warp.current();
  const std::size_t columns = column_count(warp, op, lanes);
  const std::uint32_t address = uniform_value(
      warp, op, op.slots[0], lanes, FindingKind::kIllegalOperand, "the address in tensor memory");
  const std::size_t first = tensor_column(address);
  TensorMemory& own_memory = warp.block().tensor;
  const bool is_first_try = split.ticket < 0;
  // The other block of a pair may have deallocated its columns already, and ended.
  const std::size_t blocks = op.get<TensorGroup>().blocks;
  require_tensor_blocks(warp, op, lanes, blocks, true);
  if (is_first_try) {
    check_end(warp, op, lanes, blocks, first, columns);
    split.ticket = 0;
    if (blocks == 2) {
      split.ticket =
          static_cast<std::int64_t>(join_pair_operation(warp, op, lanes, false, columns));
      TensorMemory& other = warp.block().cluster().blocks()[warp.block().rank() ^ 1U].tensor;
      if (other.is_allocated(first, columns)) {
        other.deallocated_by_peer.push_back(
            {.first = first, .columns = columns, .warp = &warp, .op = &op});
      }
    }
  }
  if (blocks == 2) {
    // Whether dealloc waits for the other block is implementation-defined (Table 48).
    const PairOperation& operation =
        tensor_block(warp, 2, 0).tensor.pair_operations[static_cast<std::size_t>(split.ticket)];
    const bool waits = is_first_try ? (warp.block().grid().random() & 1U) != 0 : true;
    if (waits && !(operation.has_arrived[0] && operation.has_arrived[1])) {
      return warp.wait_for(WaitFor::kTensorAllocation, 0);
    }
  }
  split.ticket = -1;
  if (tensor_lane(address) != 0 || !own_memory.free(first, columns)) {
    warp.stop(FindingKind::kIllegalOperand, op, lanes,
              fmt::format("{} columns at {:#x} were not allocated together; allocated columns: {}",
                          columns, address, own_memory.text()));
  }
  std::erase_if(own_memory.deallocated_by_peer, [&](const TensorAllocation& deallocation) {
    return deallocation.first == first && deallocation.columns == columns;
  });
  return Outcome::kDone;
}

Outcome run_relinquish(Warp& warp, const Op& op, Lanes lanes) {
  warp.require_all_lanes(op, lanes);
  require_tensor_blocks(warp, op, lanes, op.get<TensorGroup>().blocks, true);
  warp.block().tensor.relinquished_by = &op;
  return Outcome::kDone;
}

}  // namespace

void decode_tensor_allocation(Decoder& decoder, std::string_view suboperation) {
  Op& op = decoder.op();
  const std::size_t blocks = take_tensor_group(decoder);
  op.details.set(TensorGroup{.blocks = blocks});
  decoder.require("sync");
  decoder.require("aligned");
  if (suboperation == "relinquish_alloc_permit") {
    decoder.expect_operands(0);
    op.code = &run_relinquish;
    return;
  }
  decoder.require("b32");
  decoder.expect_operands(2);
  if (suboperation == "alloc") {
    const bool is_shared = decoder.take("shared::cta");
    op.details.set(TensorAlloc{.blocks = blocks,
                               .address = decoder.add_address(0),
                               .space = is_shared ? MemorySpace::kShared : MemorySpace::kGeneric});
    op.code = &run_alloc;
  } else {
    decoder.add(decoder.source(0, Type::kB32));
    op.code = &run_dealloc;
  }
  decoder.add(decoder.source(1, Type::kU32));
}

}  // namespace emu
