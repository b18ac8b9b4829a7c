// What instructions on tensor memory (tcgen05) have in common: the pair of blocks, and whether what
// they access may be accessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/machine/block.hpp"
#include "emulator/machine/tensor_memory.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

/// Takes cta_group::1 or ::2: how many blocks the instruction is of.
std::size_t take_tensor_group(Decoder& decoder);

/// Ends the run with a finding if other instructions of the kernel have another cta_group than
/// `blocks`, or the pair's other block is not there; `may_have_ended`: it was.
void require_tensor_blocks(Warp& warp, const Op& op, Lanes lanes, std::size_t blocks,
                           bool may_have_ended = false);

/// Block 0 is the one of even rank of the pair, or the warp's own where it has none.
Block& tensor_block(Warp& warp, std::size_t blocks, std::size_t number);
/// The warp's own number among them.
std::size_t tensor_block_number(Warp& warp, std::size_t blocks);

/// What tensor cores do for these blocks, in the order in which it is issued.
TensorQueue& tensor_queue(Warp& warp, std::size_t blocks);

/// Ends the run with a finding where the words are not all allocated, or are given back.
void require_allocated(Warp& warp, const Op& op, Lanes lanes, Block& block,
                       const TensorRange& range);

/// "tensor memory of block (0,0,0) at lane 32, column 8": where accesses are in conflict.
std::string tensor_place_text(const Block& block, const races::Conflict& conflict);

/// Records an access for the search of races, if there is one; ends the run with a finding where an
/// earlier one is in no order with it.
void check_tensor_access(Warp& warp, const Op& op, Lanes lanes, Block& block,
                         const TensorRange& range, const races::TensorView& view, bool is_write);

}  // namespace emu
