// The machine and the commit of a measurement, as every result file has them.
#pragma once

#include <string>

#include "gpu/device/device.hpp"

namespace fovea::lab {

/// A JSON object: date, the commit that this program was built from, CPU, memory, GPU and versions.
/// The driver's is asked for where it is empty here; of versions that are unknown nothing is said.
[[nodiscard]] std::string machine_json(const gpu::DeviceInfo& device,
                                       const std::string& driver_version = {},
                                       const std::string& cublaslt_version = {});

}  // namespace fovea::lab
