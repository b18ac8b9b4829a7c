// Registers that matrix products of a warpgroup use while the warp goes on.
#pragma once

#include <functional>

#include "emulator/program/program.hpp"

namespace emu {

/// Numbers them, and tells every operation which of them it touches. `slot_of`: where a register
/// is that an operand names.
void number_async_registers(Program& program, const std::function<Slot(int)>& slot_of);

}  // namespace emu
