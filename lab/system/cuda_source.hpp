// Compiles CUDA sources of other people to PTX, with nvcc.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fovea::lab {

/// Compiles a source with line information to PTX, which is written to a file, for a Hopper unless
/// `flags` name another architecture. Throws CompileError with the compiler's words if it rejects
/// the source, and fovea::Error if there is no compiler.
void compile_to_ptx(const std::filesystem::path& source, const std::filesystem::path& ptx,
                    const std::vector<std::string>& flags);

}  // namespace fovea::lab
