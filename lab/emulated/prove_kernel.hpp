// Runs a card's small cases on the emulator with another kernel in the place of the program's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"

namespace fovea::lab {

struct KernelProof {
  const gpu::KernelImage* image = nullptr;  // with its PTX
  /// Returns the plans that launch the kernel for a workload on a device; none if it cannot run it.
  /// Called concurrently.
  std::function<std::vector<Plan>(const Workload&, const gpu::DeviceInfo&)> plans{};
  std::uint64_t seed = 1;  // seed of inputs and schedules
  int schedules = 4;       // of each case
};

struct ProofResult {
  int checked = 0;         // number of outputs that were checked
  std::string why_none{};  // why none was, if none was
  /// The first failure, with its case: a finding of the emulator, or a wrong output; empty if there
  /// is none.
  std::string failure{};
  bool is_output_wrong = false;  // whether the failure is a wrong output without a finding
};

/// Runs the cases that are quick to emulate, and the first problem that the card lists for the
/// emulator, each on several schedules, on all CPUs.
[[nodiscard]] ProofResult prove_kernel(const Card& card, const KernelProof& proof);

}  // namespace fovea::lab
