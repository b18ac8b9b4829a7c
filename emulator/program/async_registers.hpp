// Registers that matrix products of a warpgroup use while the warp goes on.
#pragma once

#include "emulator/program/program.hpp"

namespace emu {

/// Numbers them, and tells every operation which of them it touches.
void number_async_registers(Program& program);

}  // namespace emu
