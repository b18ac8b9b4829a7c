// The host's description of a GPU architecture; kernels/archs.py has a row for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fovea::gpu {

/// What a machine code instruction does.
enum class InstructionKind : std::uint8_t {
  kMultiply,     // matrix products in tensor cores
  kAccess,       // reads, writes or copies shared, global, local or tensor memory
  kReduce,       // reductions and votes over the lanes of a warp
  kSynchronise,  // barriers, fences, commits to them; register reallocation between warps
  kLeave,        // calls, returns and exits
  kOther,        // registers, constants, caches and branches
};

struct ListedInstruction {
  std::string_view name;  // mnemonic, such as "LDG"
  InstructionKind kind;
};

struct Arch {
  int number = 0;             // compute capability, times ten
  std::string_view target{};  // "sm_90a", for machine code and the emulator; "" without both
  std::string_view family{};
  std::string_view gpus{};
  std::size_t shared_bytes = 0;  // maximum shared memory per CTA
  int registers = 0;             // 32-bit registers per SM
  int exponentials = 0;          // special functions per SM and clock cycle
  int wide_products = 0;         // 16-bit multiply-adds per SM and clock cycle; 0: unknown
  bool overlaps = false;         // supports programmatic dependent launch
  bool e4m3 = false;             // tensor cores multiply e4m3
  bool block_scales = false;     // tensor cores multiply block-scaled types
  std::span<const ListedInstruction> instructions{};  // sorted by name
};

using Archs = std::span<const Arch>;

/// Returns the architecture with this number, or nullptr.
[[nodiscard]] constexpr const Arch* find_arch(int number, Archs archs) {
  for (const Arch& arch : archs) {
    if (arch.number == number) {
      return &arch;
    }
  }
  return nullptr;
}

/// Returns the last architecture whose number is not greater, whose properties such a GPU has; a
/// default-constructed one when there is none.
[[nodiscard]] constexpr Arch arch_up_to(int number, Archs archs) {
  Arch last;
  for (const Arch& arch : archs) {
    if (arch.number <= number) {
      last = arch;
    }
  }
  return last;
}

}  // namespace fovea::gpu
