// Reconvergence: where the lanes that diverge at a branch join again.
#pragma once

#include <span>

#include "emulator/program/program.hpp"

namespace emu {

/// Sets `join` of every branch to its immediate post-dominator: the first operation that all lanes
/// reach whichever way they take.
void find_joins(std::span<Op> ops);

}  // namespace emu
