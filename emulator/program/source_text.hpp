// Text of an instruction's place in the source, with the calls in whose place it was inlined.
#pragma once

#include <string>
#include <string_view>

#include "emulator/program/program.hpp"

namespace emu {

/// Whether a file is a header of the CUDA toolkit: below an include folder of its installations
/// (targets/*/include, nvidia/cu*/include), below a folder that only it has (cooperative_groups,
/// cccl, crt), or with one of its names (cuda_fp16.hpp, sm_*_intrinsics.hpp).
[[nodiscard]] bool is_toolkit_header(std::string_view file);

/// Returns the place of one of the program's instructions, if the PTX has line information. It
/// begins with the innermost line outside of the toolkit's headers, "file.cu:12"; then come the
/// calls in whose place that line was inlined, " (inlined at file.cu:34)" each, and then those
/// lines of the toolkit's headers that were inlined there, " (inside cuda_fp16.hpp:56)" each.
[[nodiscard]] std::string source_text(const Program& program,
                                      const syntax::Instruction& instruction);

}  // namespace emu
