// Limits for the sizes in a PTX module; the parser refuses larger ones and names the line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu::syntax {

/// Limits for a kernel, in bytes (CUDA C++ Programming Guide, technical specifications per compute
/// capability).
constexpr std::size_t kMaxParameterBytes = 32764;
constexpr std::size_t kMaxLocalBytes = std::size_t{512} << 10U;   // per thread
constexpr std::size_t kMaxSharedBytes = std::size_t{228} << 10U;  // per block
/// Limit for the variables of a module, larger than any GPU's memory. It keeps sums of sizes within
/// 64 bits.
constexpr std::size_t kMaxVariableBytes = std::size_t{1} << 40U;
constexpr std::size_t kMaxAlignment = std::size_t{64} << 10U;
/// Maximum nesting of blocks { } and of operands; valid PTX has two levels of operands.
constexpr int kMaxBlockDepth = 256;
constexpr int kMaxOperandDepth = 4;

/// Estimated host memory of each decoded part of a module, in bytes. The parser adds it up before
/// it creates the parts, to stay within the caller's limit.
constexpr std::size_t kInstructionBytes = 1024;
constexpr std::size_t kOperandBytes = 320;
constexpr std::size_t kRegisterBytes = 256;
constexpr std::size_t kBlockBytes = 512;
constexpr std::size_t kFunctionBytes = 1024;
constexpr std::size_t kNameBytes = 256;
constexpr std::size_t kPlaceBytes = 128;  // of a source, which a .loc names
constexpr std::size_t kTargetBytes = 64;  // of each target of a branch to one of many

}  // namespace emu::syntax
