// The CPU backend: tile kernels for matrix products, Highway for the operators between them.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.hpp"

namespace fovea::cpu {

struct CpuOptions {
  Precision precision = Precision::kAuto;
  int threads = 0;     // 0: one per CPU that this process may use
  std::string note{};  // for Backend::take_note, such as why this device was chosen
};

/// Throws fovea::Error with the reason when the CPU lacks the instructions for the precision.
[[nodiscard]] std::unique_ptr<ops::Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace fovea::cpu
