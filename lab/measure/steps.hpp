// The step protocol: a program that prepares a case of a kernel once, and takes a sample of its
// time whenever a line asks for one. `compare` talks it with two programs in turns.
#pragma once

#include <istream>
#include <ostream>

#include "gpu/device/device.hpp"
#include "lab/check/prepared_case.hpp"

namespace fovea::lab {

/// Writes the line {"ready": {...}} when inputs, kernel and clocks are ready, and the output was
/// right. Then each line "sample" is answered with {"seconds", "sm_mhz", "watts", "slowed"}, and
/// any other line with
/// {"error"}. The end of `in` ends it. Throws fovea::Error when the output is wrong.
void run_steps(gpu::Device& device, const CaseSpec& spec, std::istream& in, std::ostream& out);

}  // namespace fovea::lab
