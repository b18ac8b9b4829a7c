// Registers that asynchronous matrix products use after the warp has issued them.
#pragma once

#include <functional>

#include "emulator/program/program.hpp"

namespace emu {

/// Numbers them, and lists for every operation those that it touches. `slot_of` gives the slot of a
/// register that an operand names.
void number_async_registers(Program& program, const std::function<Slot(int)>& slot_of);

}  // namespace emu
