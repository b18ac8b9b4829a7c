// Compiles kernels at run time: with NVRTC if that can be opened, else with nvcc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/archs.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {

/// The compiler rejected the source; the message is the compiler's.
class CompileError : public Error {
 public:
  using Error::Error;
};

enum class CompilerKind : std::uint8_t { kAny, kNvrtc, kNvcc };

struct CompileOptions {
  std::string target{gpu::arch_up_to(gpu::kDefaultArch, gpu::kArchs).target};
  bool lines = false;  // adds line information
  CompilerKind compiler = CompilerKind::kAny;
  double max_seconds = 120;  // time limit of nvcc
};

/// One kernel's machine code. Must not be moved while `image` is in use.
struct CompiledKernel {
  std::vector<std::byte> cubin;
  gpu::KernelImage image;  // refers to `cubin`, with the resources that ptxas reported
  std::string compiler;    // "NVRTC 13.0"
  double seconds = 0.0;    // duration of the compilation
};

/// Returns the kernel's target for devices with this architecture: "sm_90a". Throws fovea::Error if
/// the kernel does not support them.
[[nodiscard]] std::string target_of(gpu::KernelId kernel, int arch);

/// Compiles a kernel with these values of its tuning parameters. Throws CompileError if its source
/// is rejected or takes too long, and fovea::Error if there is no compiler.
[[nodiscard]] CompiledKernel compile(const KernelSources& sources, gpu::KernelId kernel,
                                     const ParameterValues& values, const CompileOptions& options);

/// The machine code of a unit.
struct AssembledUnit {
  std::vector<std::byte> cubin;
  std::string assembler;  // "ptxas 13.0"
};

/// Assembles an image of this program, and the others in its unit, again from the PTX that the
/// program carries, with line information, which does not change the machine code. Throws
/// fovea::Error if ptxas is not found.
[[nodiscard]] AssembledUnit assemble_with_lines(const gpu::KernelImage& image);

/// Reads a kernel's registers and memory from ptxas's log. Throws CompileError if they are missing:
/// then the source no longer has this entry point.
void read_resources(const std::string& log, gpu::KernelImage& image);

}  // namespace fovea::lab
