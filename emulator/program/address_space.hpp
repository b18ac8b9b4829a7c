// Address windows of a block, as generic addresses and addresses in shared memory have them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu {

/// Windows of generic addresses for shared, local and parameter memory.
constexpr std::uint64_t kSharedWindow = 0x1'0000'0000;
constexpr std::uint64_t kParameterWindow = 0x2'0000'0000;
constexpr std::uint64_t kLocalWindow = 0x3'0000'0000;
constexpr std::uint64_t kWindowBytes = 0x1'0000'0000;
/// Addresses in shared memory have the block's rank in its cluster above these bits, as on
/// hardware (CUTLASS, include/cute/arch/copy_sm100_tma.hpp, takes it for granted).
constexpr unsigned kRankShift = 24;
/// Shared memory begins with what the system has for itself.
constexpr std::size_t kReservedSharedBytes = 1024;

}  // namespace emu
