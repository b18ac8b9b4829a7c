// The step protocol: a program prepares a kernel's case once and measures one sample each time that
// it is asked. `compare` speaks it with two programs alternately.
#pragma once

#include <istream>
#include <ostream>

#include "gpu/device/device.hpp"
#include "lab/check/prepared_case.hpp"

namespace fovea::lab {

/// Writes the line {"ready": {...}} once inputs, kernel and clocks are ready and the output was
/// checked. Then answers each line "sample" with {"seconds", "sm_mhz", "watts", "slowed"}, and any
/// other line with {"error"}, until `in` ends. Throws fovea::Error if the output is wrong.
void run_steps(gpu::Device& device, const CaseSpec& spec, std::istream& in, std::ostream& out);

}  // namespace fovea::lab
