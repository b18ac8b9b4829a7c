// The largest sizes that PTX may ask for: what is beyond them is refused with its line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu::syntax {

/// Limits of a kernel (CUDA C++ Programming Guide, technical specifications per compute
/// capability).
constexpr std::size_t kMaxParameterBytes = 32764;
constexpr std::size_t kMaxLocalBytes = std::size_t{512} << 10U;   // of a thread
constexpr std::size_t kMaxSharedBytes = std::size_t{228} << 10U;  // of a block
/// No GPU has more memory; so no sum of a module's sizes goes beyond 64 bits.
constexpr std::size_t kMaxVariableBytes = std::size_t{1} << 40U;
constexpr std::size_t kMaxAlignment = std::size_t{64} << 10U;
/// Blocks { } in each other, and operands in each other, of which PTX needs two.
constexpr int kMaxBlockDepth = 256;
constexpr int kMaxOperandDepth = 4;

/// What a module's parts take of the host's memory once they are decoded, roughly: what bounds it
/// has to come before they are made.
constexpr std::size_t kInstructionBytes = 1024;
constexpr std::size_t kOperandBytes = 320;
constexpr std::size_t kRegisterBytes = 256;
constexpr std::size_t kBlockBytes = 512;
constexpr std::size_t kNameBytes = 256;

}  // namespace emu::syntax
