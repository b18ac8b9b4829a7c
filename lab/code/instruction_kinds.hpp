// What the instructions of the machine code do: the one table that the cards' demands, the control
// flow, its drawing and the listing of regions read.
#pragma once

#include <cstdint>
#include <string_view>

namespace fovea::lab {

enum class InstructionKind : std::uint8_t {
  kMultiply,     // the matrix units
  kAccess,       // reads, writes or copies shared, global, local or tensor memory
  kReduce,       // over the lanes of a warp
  kSynchronise,  // barriers, fences, what commits to them; registers that a warp takes or gives
  kLeave,        // calls and ends
  kOther,        // registers, constants, caches and branches
};

/// Of an instruction by its full name ("LDG.E.128"), on this architecture (90); 0: on any.
[[nodiscard]] InstructionKind kind_of(std::string_view name, int arch = 0);

/// What threads of one role may do and those of several may not: to multiply, to touch memory, to
/// reduce.
[[nodiscard]] bool is_work(InstructionKind kind);

/// Whether the name is that of a matrix or memory instruction by its letters, and the table does
/// not have it for this architecture: then nothing that is said of the kernel counts it.
[[nodiscard]] bool is_unknown(std::string_view name, int arch);

}  // namespace fovea::lab
