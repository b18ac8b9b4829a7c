// Describes the machine and the commit of a measurement, as recorded in every result file.
#pragma once

#include <string>

#include "gpu/device/device.hpp"

namespace fovea::lab {

/// Returns a JSON object: date, the commit that this program was built from, CPU, memory, GPU and
/// versions. An empty driver version is queried; unknown versions are omitted.
[[nodiscard]] std::string machine_json(const gpu::DeviceInfo& device,
                                       const std::string& driver_version = {},
                                       const std::string& cublaslt_version = {});

}  // namespace fovea::lab
