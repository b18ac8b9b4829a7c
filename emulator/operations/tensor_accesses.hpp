// Checks common to the instructions on tensor memory (tcgen05): of the pair of blocks, and of
// accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/machine/block.hpp"
#include "emulator/machine/tensor_memory.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

/// Takes cta_group::1 or ::2 and returns the number of blocks.
std::size_t take_tensor_group(Decoder& decoder);

/// Ends the run with a finding if other instructions of the kernel have a cta_group other than
/// `blocks`, or if the pair's other block does not exist or, unless `may_have_ended`, has ended.
void require_tensor_blocks(Warp& warp, const Op& op, Lanes lanes, std::size_t blocks,
                           bool may_have_ended = false);

/// Returns a block of the pair: 0 is the one of even rank. Without a pair, returns the warp's
/// block.
Block& tensor_block(Warp& warp, std::size_t blocks, std::size_t number);
/// Returns the number of the warp's block in the pair.
std::size_t tensor_block_number(Warp& warp, std::size_t blocks);

/// Returns the queue of tensor core operations for these blocks, in order of issue.
TensorQueue& tensor_queue(Warp& warp, std::size_t blocks);

/// Ends the run with a finding if not all words are allocated, or the other block deallocates them.
void require_allocated(Warp& warp, const Op& op, Lanes lanes, Block& block,
                       const TensorRange& range);

/// Formats the place of a conflict, such as "tensor memory of block (0,0,0) at lane 32, column 8".
std::string tensor_place_text(const Block& block, const races::Conflict& conflict);

/// Records an access in the race detector, if the run has one; ends the run with a finding if the
/// access is unordered with an earlier one.
void check_tensor_access(Warp& warp, const Op& op, Lanes lanes, Block& block,
                         const TensorRange& range, const races::TensorView& view, bool is_write);

}  // namespace emu
