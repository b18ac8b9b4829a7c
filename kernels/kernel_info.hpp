// What is known of a kernel before it is compiled.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/archs.hpp"

namespace fovea::gpu {

/// What a kernel is compiled to.
enum class Code : std::uint8_t {
  kMachine,  // runs on its architecture and on later ones of the same major version
  kFamily,   // so does this, with what its family alone has
  kOneArch,  // machine code with what one architecture alone has
  kPtx,      // the driver compiles it for architectures after its own
};

struct Target {
  int arch = 0;  // 90 for sm_90a; 0: none
  Code code = Code::kMachine;
};

struct KernelInfo {
  std::string_view name;                            // also of the entry point
  std::string_view source;                          // "gemm/sm90_cooperative.cuh"
  std::array<Target, kArchs.size() + 1> targets{};  // then such of no architecture
  bool lab = false;                                 // part of the laboratory alone
};

}  // namespace fovea::gpu
