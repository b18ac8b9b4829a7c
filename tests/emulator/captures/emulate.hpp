// Runs micro-kernels in the emulator.
#pragma once

#include <string>
#include <vector>

#include "emulator/captures/micro_kernel.hpp"
#include "lab/captures/results.hpp"

namespace captures {

struct Emulated {
  std::vector<Bytes> outputs{};
  std::string finding{};  // what the kernel does wrong
  std::string error{};    // what the emulator does not know
};

Emulated emulate(const MicroKernel& kernel, const std::vector<Bytes>& inputs, std::uint64_t seed);

/// What is other than the card's, or than the kernel's own model: empty where nothing is. Of an
/// illegal kernel the card has to report an error, and the emulator a finding.
std::string unlike_card(const fovea::captures::Results& card, const MicroKernel& kernel,
                        const std::vector<Bytes>& inputs, const Emulated& emulated);
std::string unlike_model(const MicroKernel& kernel, const std::vector<Bytes>& inputs,
                         const Emulated& emulated);

}  // namespace captures
