// Decompressor of LZ4 blocks, in which nvcc 12 stores the code in programs.
#pragma once

#include <cstddef>
#include <span>

namespace fovea::programs {

/// Decompresses a block, which has no header, to exactly `to.size()` bytes. Throws fovea::Error for
/// a block that is damaged or has another size.
void unpack_lz4(std::span<const std::byte> packed, std::span<std::byte> to);

}  // namespace fovea::programs
