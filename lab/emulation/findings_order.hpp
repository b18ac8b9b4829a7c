// Order of findings, causes before what may follow from them, and one finding for each line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea_emulator/finding.hpp"

namespace fovea::emulation {

/// Moves races and missing fences before the findings that may follow from them, and races between
/// warps before those within one, which a barrier of the block mends as well.
void put_causes_first(std::vector<emu::Finding>& findings);

/// Adds the name of the option to findings of runs that a limit has ended.
void say_what_raises_limits(std::vector<emu::Finding>& findings);

/// Returns the line that a finding's source begins with: "a.cu:12" of "a.cu:12 (inlined at ...)".
[[nodiscard]] std::string_view source_line(std::string_view source);

/// Returns what findings have in common that are of the same lines of the source: the kind, the
/// kernel, and the lines of both accesses. Lines of the PTX stand for unknown ones.
[[nodiscard]] std::string line_key(const emu::Finding& finding);

/// Returns the first finding of each key, with the count of all: an unrolled loop has a line of the
/// source several times.
[[nodiscard]] std::vector<emu::Finding> merged_by_line(const std::vector<emu::Finding>& findings);

}  // namespace fovea::emulation
