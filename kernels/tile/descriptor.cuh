// Matrix descriptors: how wgmma finds a tile in shared memory (PTX ISA 9.7.15.5.1), and the
// swizzle.
#pragma once

#include <cstdint>

namespace fovea::tile {

/// Bits 62-63 of the descriptor.
enum class SwizzleMode : std::uint64_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

/// Descriptor of a tile at `address` (shared). Offsets are in bytes:
/// K-major tiles (K contiguous, rows as wide as the swizzle): `stride` between groups of eight
/// rows, `leading` unused; a step of 32 bytes along K is 32 added to the address. MN-major tiles:
/// `leading` between spans (as wide as the swizzle) along M or N, `stride` between groups of eight
/// along K.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t leading,
                                                    std::uint32_t stride, SwizzleMode mode) {
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) |
         static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | static_cast<std::uint64_t>(mode) << 62;
}

/// K-major, rows of 128 bytes, 128-byte swizzle: as a box of 128 bytes by rows arrives.
/// The tile begins at a multiple of 1024 bytes.
__device__ __forceinline__ std::uint64_t descriptor_k128(std::uint32_t address) {
  return descriptor(address, 16, 1024, SwizzleMode::k128);
}

/// A descriptor moved on by `bytes`.
__device__ __forceinline__ std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace fovea::tile
