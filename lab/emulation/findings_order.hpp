// Order of findings: causes before what may follow from them.
#pragma once

#include <string_view>
#include <vector>

#include "fovea_emulator/finding.hpp"

namespace fovea::emulation {

/// Moves races and missing fences before the findings that may follow from them, and races between
/// warps before those within one, which a barrier of the block mends as well.
void put_causes_first(std::vector<emu::Finding>& findings);

/// Returns the line that a finding's source begins with: "a.cu:12" of "a.cu:12 (inlined at ...)".
[[nodiscard]] std::string_view source_line(std::string_view source);

}  // namespace fovea::emulation
