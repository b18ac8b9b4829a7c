// Checks common to the instructions on tensor memory (tcgen05).
#include "emulator/operations/tensor_accesses.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"

namespace emu {

std::size_t take_tensor_group(Decoder& decoder) {
  return decoder.take_one_of({"cta_group::1", "cta_group::2"}) == "cta_group::2" ? 2 : 1;
}

void require_tensor_blocks(Warp& warp, const Op& op, Lanes lanes, std::size_t blocks,
                           bool may_have_ended) {
  std::size_t& kernel_blocks = warp.block().grid().tensor_blocks;
  if (kernel_blocks != 0 && kernel_blocks != blocks) {
    warp.stop(
        FindingKind::kIllegalOperand, op, lanes,
        fmt::format("it has another cta_group than earlier instructions of the kernel, which have "
                    "cta_group::{}",
                    kernel_blocks));
  }
  kernel_blocks = blocks;
  if (blocks == 2) {
    const std::size_t peer = warp.block().rank() ^ 1U;
    std::deque<Block>& cluster_blocks = warp.block().cluster().blocks();
    if (peer >= cluster_blocks.size()) {
      warp.stop(FindingKind::kIllegalOperand, op, lanes,
                fmt::format("block {} of a cluster of {} has no other block to form a pair with",
                            warp.block().rank(), cluster_blocks.size()));
    }
    if (cluster_blocks[peer].is_done() && !may_have_ended) {
      warp.report(FindingKind::kLifetime, op, lanes,
                  fmt::format("block ({}), the other one of the pair, has ended",
                              fmt::join(cluster_blocks[peer].index(), ",")));
    }
  }
}

Block& tensor_block(Warp& warp, std::size_t blocks, std::size_t number) {
  return blocks == 1 ? warp.block()
                     : warp.block().cluster().blocks()[(warp.block().rank() & ~1U) + number];
}

std::size_t tensor_block_number(Warp& warp, std::size_t blocks) {
  return blocks == 1 ? 0 : warp.block().rank() & 1U;
}

TensorQueue& tensor_queue(Warp& warp, std::size_t blocks) {
  return tensor_block(warp, blocks, 0).tensor.queue;
}

namespace {

std::string range_text(const TensorRange& range) {
  return fmt::format("lanes {} to {} of columns {} to {}", range.lane, range.lane + range.lanes - 1,
                     range.column, range.column + range.columns - 1);
}

}  // namespace

std::string tensor_place_text(const Block& block, const races::Conflict& conflict) {
  const auto address = static_cast<std::uint32_t>(conflict.offset);
  return fmt::format("tensor memory of block ({}) at lane {}, column {}",
                     fmt::join(block.index(), ","), tensor_lane(address), tensor_column(address));
}

void require_allocated(Warp& warp, const Op& op, Lanes lanes, Block& block,
                       const TensorRange& range) {
  if (block.is_done()) {
    warp.report(FindingKind::kLifetime, op, lanes,
                fmt::format("it accesses tensor memory of block ({}), which has ended",
                            fmt::join(block.index(), ",")));
  }
  if (range.lane + range.lanes > kTensorLanes ||
      !block.tensor.is_allocated(range.column, range.columns)) {
    warp.stop(FindingKind::kOutOfBounds, op, lanes,
              fmt::format("{} of tensor memory are not all allocated; allocated columns: {}",
                          range_text(range), block.tensor.text()));
  }
  for (const TensorAllocation& deallocation : block.tensor.deallocated_by_peer) {
    if (range.column < deallocation.first + deallocation.columns &&
        deallocation.first < range.column + range.columns) {
      warp.report(
          FindingKind::kLifetime, op, lanes,
          fmt::format(
              "it accesses {} of tensor memory, but block ({}), the other one of the pair, "
              "deallocates columns {} to {} (line {}), and no synchronisation orders the access "
              "before that",
              range_text(range), fmt::join(deallocation.warp->block().index(), ","),
              deallocation.first, deallocation.first + deallocation.columns - 1,
              deallocation.op->instruction->line));
    }
  }
}

void check_tensor_access(Warp& warp, const Op& op, Lanes lanes, Block& block,
                         const TensorRange& range, const races::TensorView& view, bool is_write) {
  if (warp.races() == nullptr) {
    return;
  }
  races::TensorShadow& shadow = block.tensor.shadow;
  const auto conflict = is_write ? shadow.write(view, range) : shadow.read(view, range);
  if (conflict.has_value()) {
    report_conflict(warp, op, lanes, *conflict, is_write, tensor_place_text(block, *conflict));
  }
}

}  // namespace emu
