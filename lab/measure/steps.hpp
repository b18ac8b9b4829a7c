// The step protocol, in which a program prepares a kernel's case once and measures one sample per
// request. `compare` sends requests to two programs alternately.
#pragma once

#include <istream>
#include <ostream>

#include "gpu/device/device.hpp"
#include "lab/check/prepared_case.hpp"

namespace fovea::lab {

/// Writes the line {"ready": {...}} after preparing inputs and kernel, raising the clocks and
/// checking the output. Then answers each line "sample" with {"seconds", "sm_mhz", "watts",
/// "slowed"}, and any other line with {"error"}, until `in` ends. Throws fovea::Error if the output
/// is wrong.
void run_steps(gpu::Device& device, const CaseSpec& spec, std::istream& in, std::ostream& out);

}  // namespace fovea::lab
