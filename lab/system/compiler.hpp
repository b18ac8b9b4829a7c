// Compiles kernels at run time, with NVRTC if it can be opened, else with nvcc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/archs.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {

/// Thrown if the compiler rejects the source, with the compiler's message.
class CompileError : public Error {
 public:
  using Error::Error;
};

enum class CompilerKind : std::uint8_t { kAny, kNvrtc, kNvcc };

struct CompileOptions {
  std::string target{gpu::arch_up_to(gpu::kDefaultArch, gpu::kArchs).target};
  CompilerKind compiler = CompilerKind::kAny;
  double max_seconds = 120;  // time limit of nvcc
};

/// A kernel's machine code. Must not be moved while `image` is in use.
struct CompiledKernel {
  std::vector<std::byte> cubin;
  std::string ptx;         // from which it was assembled, with line numbers of the sources
  gpu::KernelImage image;  // refers to both; has the resource usage reported by ptxas
  std::string compiler;    // "NVRTC 13.0"
  double seconds = 0.0;    // duration of the compilation
};

/// Returns the kernel's compilation target for devices with this architecture: "sm_90a". Throws
/// fovea::Error if the kernel does not support such devices.
[[nodiscard]] std::string compile_target(gpu::KernelId kernel, int arch);

/// Compiles a kernel with these values of its tuning parameters. Throws CompileError if the source
/// is rejected or its compilation takes too long, and fovea::Error if there is no compiler.
[[nodiscard]] CompiledKernel compile(const KernelSources& sources, gpu::KernelId kernel,
                                     const ParameterValues& values, const CompileOptions& options);

/// The machine code of a unit.
struct AssembledUnit {
  std::vector<std::byte> cubin;
  std::string assembler;  // "ptxas 13.0"
};

/// Assembles the embedded PTX of an image's unit, with all kernels in it, with line information,
/// which does not change the machine code. Throws fovea::Error if ptxas is not found.
[[nodiscard]] AssembledUnit assemble_with_lines(const gpu::KernelImage& image);

/// Reads a kernel's use of registers and memory from ptxas's log. Throws CompileError if the log
/// does not contain it, because the source has no such entry point.
void read_resources(const std::string& log, gpu::KernelImage& image);

}  // namespace fovea::lab
