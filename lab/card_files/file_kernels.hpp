// Kernels of other people: compiled from the source that a card file names, and added to those of
// the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/emulation/expression.hpp"

namespace fovea::lab {

/// A source in CUDA C++ (.cu) or PTX, and how it is compiled.
struct KernelFile {
  std::filesystem::path path;
  std::vector<std::string> flags{};    // for nvcc
  std::vector<std::string> targets{};  // "sm_90a"; of PTX, only its own
  emulation::Values macros{};          // defined as these numbers
};

/// A kernel of a file, by its number in the program.
struct FileKernel {
  gpu::KernelId id{};
  /// Name in the file, and parameters; without a program.
  emu::KernelHandle handle{};
};

/// Compiles a file to PTX and, where nvcc or ptxas is found, to machine code, and adds the kernels
/// of these names to the program: names in the PTX or in C++, as emulation::Module::find() takes
/// them; "" is the only kernel. There, a kernel is called by its plain name in C++. Throws
/// CompileError for a source that the compiler rejects, and fovea::Error for one that cannot be
/// read, and for a kernel that it lacks.
[[nodiscard]] std::vector<FileKernel> add_file_kernels(const KernelFile& file,
                                                       const std::vector<std::string>& names);

}  // namespace fovea::lab
