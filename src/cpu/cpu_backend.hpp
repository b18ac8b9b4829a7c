// The CPU backend: tiles for matrix products, Highway for what lies between them.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.hpp"

namespace fovea::cpu {

struct CpuOptions {
  Precision precision = Precision::kAuto;
  int threads = 0;     // 0: one for each CPU this process may use
  std::string note{};  // what Backend::take_note tells: why this device was taken, say
};

/// Throws fovea::Error with the reason when the CPU lacks the instructions for the precision.
[[nodiscard]] std::unique_ptr<ops::Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace fovea::cpu
