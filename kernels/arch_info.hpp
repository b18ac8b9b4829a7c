// What the host knows of an architecture of GPUs: a row of kernels/archs.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fovea::gpu {

/// What an instruction of the machine code does.
enum class InstructionKind : std::uint8_t {
  kMultiply,     // the matrix units
  kAccess,       // reads, writes or copies shared, global, local or tensor memory
  kReduce,       // over the lanes of a warp
  kSynchronise,  // barriers, fences, what commits to them; registers that a warp takes or gives
  kLeave,        // calls and ends
  kOther,        // registers, constants, caches and branches
};

struct ListedInstruction {
  std::string_view name;  // "LDG"
  InstructionKind kind;
};

struct Arch {
  int number = 0;             // compute capability, times ten
  std::string_view target{};  // "sm_90a", of machine code and of the emulator; "": neither is here
  std::string_view family{};
  std::string_view gpus{};
  std::size_t shared_bytes = 0;  // that a CTA may have
  int registers = 0;             // of 32 bits, of an SM
  int exponentials = 0;          // and other special functions, of an SM per clock cycle
  int wide_products = 0;  // multiply-adds of two-byte types of an SM per clock cycle; 0: not known
  bool overlaps = false;  // a grid may begin before the one that it depends on has ended
  bool e4m3 = false;      // matrix units multiply e4m3
  bool block_scales = false;                          // and numbers in blocks with a scale each
  std::span<const ListedInstruction> instructions{};  // by name
};

using Archs = std::span<const Arch>;

/// The row of this number; nullptr: there is none.
[[nodiscard]] constexpr const Arch* find_arch(int number, Archs archs) {
  for (const Arch& arch : archs) {
    if (arch.number == number) {
      return &arch;
    }
  }
  return nullptr;
}

/// The last row up to this number, which tells what such a GPU has; without one a row of nothing.
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
