// The device's ceilings: how fast it copies, and how fast its matrix units run.
#pragma once

#include <string>
#include <vector>

#include "gpu/device/device.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::lab {

/// Measured with the same timer as kernels. What cannot be measured stays 0, and `missing` says so.
[[nodiscard]] Ceilings measure_ceilings(gpu::Device& device, const Nvml& nvml,
                                        std::string& cublaslt_version,
                                        std::vector<std::string>& missing);

}  // namespace fovea::lab
