// Names of places in shared memory, for findings.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/program/program.hpp"

namespace emu {

/// Returns the variable at an offset in a block's shared memory, and the index in elements of the
/// type that the instruction names, as "tile[17]", or in bytes, as "tile + 68 bytes"; "" if no
/// variable is there.
std::string shared_place_name(const Program& program, const std::string& opcode,
                              std::uint64_t offset);
/// Returns the variable that begins at the offset, or contains it; "" if there is none.
std::string shared_variable_name(const Program& program, std::uint64_t offset);

}  // namespace emu
