// What is known of a kernel before it is compiled.
#pragma once

#include <array>
#include <string_view>

namespace fovea::gpu {

struct KernelInfo {
  std::string_view name;       // also of the entry point
  std::string_view source;     // "gemm/sm90_cooperative.cuh"
  std::array<int, 3> archs{};  // that it is compiled for, 90 for sm_90a; then zeros
  bool lab = false;            // part of the laboratory alone
};

}  // namespace fovea::gpu
