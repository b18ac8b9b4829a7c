// Runs micro-kernels in the emulator.
#pragma once

#include <string>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"

namespace captures {

struct Emulated {
  std::vector<Bytes> outputs{};
  std::string error{};  // what the emulator does not know, or what it found
};

Emulated emulate(const MicroKernel& kernel, const std::vector<Bytes>& inputs, std::uint64_t seed);

}  // namespace captures
