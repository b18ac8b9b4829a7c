// Classifies machine instructions by the tables in kernels/archs.py.
#pragma once

#include <string_view>

#include "kernels/archs.hpp"

namespace fovea::lab {

using gpu::InstructionKind;

/// Returns the kind of an instruction, given its full name ("LDG.E.128") and an architecture (90),
/// or 0 for any architecture.
[[nodiscard]] InstructionKind kind_of(std::string_view name, int arch = 0,
                                      gpu::Archs archs = gpu::kArchs);

/// Returns whether only a single role may execute instructions of this kind: products, memory
/// accesses and reductions.
[[nodiscard]] bool is_work(InstructionKind kind);

/// Returns whether the name looks like a matrix or memory instruction but is missing from the table
/// for this architecture, which would make statistics of the kernel incomplete.
[[nodiscard]] bool is_unknown(std::string_view name, int arch, gpu::Archs archs = gpu::kArchs);

}  // namespace fovea::lab
