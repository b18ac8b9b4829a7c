// Values of the special registers.
#pragma once

#include <cstdint>

#include "emulator/program/special_registers.hpp"

namespace emu {

class Block;

/// Value of a special register in a lane of the block's warp.
std::uint64_t special_value(Block& block, std::uint32_t warp, std::uint32_t lane,
                            SpecialRegisterName name);

}  // namespace emu
