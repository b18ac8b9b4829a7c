// Compiles kernels at run time: with NVRTC, which is opened when it is there, else with nvcc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/archs.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {

/// The compiler refused the source, in its own words.
class CompileError : public Error {
 public:
  using Error::Error;
};

enum class CompilerKind : std::uint8_t { kAny, kNvrtc, kNvcc };

struct CompileOptions {
  std::string target{gpu::arch_up_to(gpu::kDefaultArch, gpu::kArchs).target};
  bool lines = false;  // keeps the lines of the sources
  CompilerKind compiler = CompilerKind::kAny;
  double most_seconds = 120;  // of nvcc
};

/// One kernel's machine code. Not to be moved while `image` is in use.
struct CompiledKernel {
  std::vector<std::byte> cubin;
  gpu::KernelImage image;  // of `cubin`, with what ptxas said of its resources
  std::string compiler;    // "NVRTC 13.0"
  double seconds = 0.0;    // that it took
};

/// The target of the kernel for devices of this architecture: "sm_90a". Throws fovea::Error when
/// the kernel is not meant for them.
[[nodiscard]] std::string target_of(gpu::KernelId kernel, int arch);

/// Compiles a kernel with these values of its tuning parameters. Throws CompileError when its
/// source is refused or takes too long, and fovea::Error when there is no compiler.
[[nodiscard]] CompiledKernel compile(const KernelSources& sources, gpu::KernelId kernel,
                                     const ParameterValues& values, const CompileOptions& options);

/// The machine code of a unit.
struct AssembledUnit {
  std::vector<std::byte> cubin;
  std::string assembler;  // "ptxas 13.0"
};

/// An image of this program, and the others of its unit, made once more by ptxas from the PTX that
/// the program carries, with the lines of the sources, which leave the machine code as it is.
/// Throws fovea::Error when there is no ptxas.
[[nodiscard]] AssembledUnit assemble_with_lines(const gpu::KernelImage& image);

/// What ptxas said of a kernel's registers and memory, in the log of its compilation. Throws
/// CompileError when it said nothing: the source has no such entry point any more.
void read_resources(const std::string& log, gpu::KernelImage& image);

}  // namespace fovea::lab
