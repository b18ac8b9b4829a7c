// Static information about a kernel, known before it is compiled.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/archs.hpp"

namespace fovea::gpu {

/// The kinds of code that kernels are compiled to.
enum class Code : std::uint8_t {
  kMachine,  // machine code for an architecture and later ones of the same major version
  kFamily,   // the same with features specific to the architecture's family
  kOneArch,  // machine code with features specific to one architecture
  kPtx,      // PTX, which the driver compiles for later architectures
};

struct Target {
  int arch = 0;  // 90 for sm_90a; 0: none
  Code code = Code::kMachine;
};

struct KernelInfo {
  std::string_view name;    // also the name of the entry point
  std::string_view source;  // file below kernels/, such as "gemm/sm90_cooperative.cuh"
  /// Unused elements at the end have no architecture.
  std::array<Target, kArchs.size() + 1> targets{};
  bool lab = false;  // for the laboratory only, not in the library
};

}  // namespace fovea::gpu
