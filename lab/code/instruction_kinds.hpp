// What the instructions of the machine code do, by the rows of kernels/archs.py: what the cards'
// demands, the control flow, its drawing and the listing of regions read.
#pragma once

#include <string_view>

#include "kernels/archs.hpp"

namespace fovea::lab {

using gpu::InstructionKind;

/// The kind of an instruction by its full name ("LDG.E.128"), on this architecture (90); 0: on any.
[[nodiscard]] InstructionKind kind_of(std::string_view name, int arch = 0,
                                      gpu::Archs archs = gpu::kArchs);

/// What threads of one role may do and those of several may not: to multiply, to touch memory, to
/// reduce.
[[nodiscard]] bool is_work(InstructionKind kind);

/// Whether the name is that of a matrix or memory instruction by its letters, and the table does
/// not have it for this architecture: then nothing that is said of the kernel counts it.
[[nodiscard]] bool is_unknown(std::string_view name, int arch, gpu::Archs archs = gpu::kArchs);

}  // namespace fovea::lab
