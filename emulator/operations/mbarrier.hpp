// Lookup of the mbarrier at an address.
#pragma once

#include <cstdint>

#include "emulator/machine/block.hpp"
#include "emulator/machine/mbarrier.hpp"
#include "emulator/machine/warp.hpp"
#include "emulator/operations/memory.hpp"

namespace emu {

/// Returns the mbarrier at the address. Ends the run with a finding if there is none or it was
/// overwritten.
Mbarrier& find_mbarrier(Warp& warp, const Op& op, int lane, MemorySpace space,
                        std::uint64_t address);

/// Ends the run with a finding if the mbarrier's initialisation is unordered with its use by the
/// warp, or by asynchronous work that the warp starts.
void require_initialized(Warp& warp, const Op& op, Lanes lanes, const Mbarrier& mbarrier,
                         bool is_async);

}  // namespace emu
