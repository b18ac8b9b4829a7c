// Where the lanes that part at a branch meet again.
#pragma once

#include <span>

#include "emulator/program/program.hpp"

namespace emu {

/// Sets `join` of every branch to its immediate post-dominator: the first operation that all lanes
/// reach whichever way they take.
void find_joins(std::span<Op> ops);

}  // namespace emu
