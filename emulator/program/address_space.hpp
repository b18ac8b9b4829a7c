// Address windows of shared, local and parameter memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu {

/// Windows of generic addresses for shared, local and parameter memory.
constexpr std::uint64_t kSharedWindow = 0x1'0000'0000;
constexpr std::uint64_t kParameterWindow = 0x2'0000'0000;
constexpr std::uint64_t kLocalWindow = 0x3'0000'0000;
constexpr std::uint64_t kWindowBytes = 0x1'0000'0000;
/// Global memory is from here on.
constexpr std::uint64_t kFirstGlobalAddress = 0x10'0000'0000;
/// Addresses of functions: kCodeBytes apart, where no memory is.
constexpr std::uint64_t kCodeWindow = 0x4'0000'0000;
constexpr std::uint64_t kCodeBytes = 16;
/// Number of address bits within a block's shared memory; the block's rank in its cluster is above
/// them, as on hardware (CUTLASS, include/cute/arch/copy_sm100_tma.hpp, relies on it).
constexpr unsigned kRankShift = 24;
constexpr std::uint32_t kOffsetMask = (std::uint32_t{1} << kRankShift) - 1;
/// Bytes at the beginning of shared memory that the system reserves.
constexpr std::size_t kReservedSharedBytes = 1024;
/// Beginning of those of them that %reserved_smem_offset_1 gives to the cooperative groups of
/// several warps, which expect 288 bytes of zeros.
constexpr std::size_t kGroupScratch = kReservedSharedBytes - 288;

}  // namespace emu
