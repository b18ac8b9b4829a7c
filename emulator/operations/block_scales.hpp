// Block scales of mma.sync for sm_120: which lanes and bytes hold the scales of lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/machine/warp.hpp"
#include "emulator/program/decoder.hpp"

namespace emu {

/// Adds the operands of both matrices from the fifth on: scales, and {byte, thread} that choose
/// among them.
void add_block_scales(Decoder& decoder);

/// Reads the scales of 16 rows of A, and of eight columns of B. Ends the run if they are not
/// initialised, or chosen by values that are out of range or differ between lanes.
std::vector<std::uint8_t> read_scales_of_a(Warp& warp, const Op& op, Lanes lanes);
std::vector<std::uint8_t> read_scales_of_b(Warp& warp, const Op& op, Lanes lanes);

}  // namespace emu
