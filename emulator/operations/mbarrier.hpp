// Finding the mbarrier that an address names.
#pragma once

#include <cstdint>

#include "emulator/machine/block.hpp"
#include "emulator/machine/mbarrier.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/operations/memory.hpp"

namespace emu {

/// Ends the run with a finding where there is none, or something has been written over it.
Mbarrier& mbarrier_at(Warp& warp, const Op& op, int lane, MemorySpace space, std::uint64_t address);

/// Ends the run with a finding if no synchronisation orders the mbarrier's initialisation before
/// what the warp does with it, or starts in the asynchronous proxy.
void require_initialized(Warp& warp, const Op& op, Lanes lanes, const Mbarrier& mbarrier,
                         bool is_async);

}  // namespace emu
