// Matrix descriptors, which tell wgmma the layout of a tile in shared memory (PTX ISA 9.7.15.5.1),
// and swizzle modes.
#pragma once

#include <cstdint>

namespace fovea::tile {

/// The swizzle mode, in bits 62-63 of the descriptor.
enum class SwizzleMode : std::uint64_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

/// Returns the descriptor of a tile at the shared-memory address `address`. Offsets are in bytes.
/// K-major tiles (K contiguous, rows as wide as the swizzle): `stride` is the offset between groups
/// of eight rows, and `leading` is unused; to advance by 32 bytes along K, add 32 to the address.
/// MN-major tiles: `leading` is the offset between spans (as wide as the swizzle) along M or N, and
/// `stride` the offset between groups of eight along K.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t leading,
                                                    std::uint32_t stride, SwizzleMode mode) {
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) |
         static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | static_cast<std::uint64_t>(mode) << 62;
}

/// Returns the descriptor of a K-major tile with rows of 128 bytes and 128-byte swizzle, as loaded
/// by TMA. The tile is aligned to 1024 bytes.
__device__ __forceinline__ std::uint64_t descriptor_k128(std::uint32_t address) {
  return descriptor(address, 16, 1024, SwizzleMode::k128);
}

/// Returns the descriptor advanced by `bytes`.
__device__ __forceinline__ std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace fovea::tile
