// Order of findings: causes before what may follow from them.
#pragma once

#include <vector>

#include "fovea_emulator/finding.hpp"

namespace fovea::emulation {

/// Moves races and missing fences before the findings that may follow from them.
void put_causes_first(std::vector<emu::Finding>& findings);

}  // namespace fovea::emulation
