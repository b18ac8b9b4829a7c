// What the emulator found, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "fovea_emulator/finding.hpp"
#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

/// kind, message, kernel, instruction, line, source, block, warp, lanes; of a race also the `other`
/// access.
[[nodiscard]] nlohmann::ordered_json to_json(const emu::Finding& finding);
/// kind "mismatch", message, buffer, index, is, wanted, wrong, elements.
[[nodiscard]] nlohmann::ordered_json to_json(const Mismatch& mismatch);
/// seed, policy, and its findings.
[[nodiscard]] nlohmann::ordered_json to_json(const Outcome& outcome);

}  // namespace fovea::emulation
