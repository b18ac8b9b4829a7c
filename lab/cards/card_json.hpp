// A card as JSON: all that somebody needs to know who is to write a better kernel for it.
#pragma once

#include <string>

#include "gpu/device/device.hpp"
#include "lab/cards/card.hpp"

namespace fovea::lab {

/// The operation, its problems, tolerances, limits, gates, tuning parameters and source files; with
/// a device also the peers that this machine has. Without `problems` its cases are names alone: to
/// say more of one its inputs are drawn, a second for a card of many cases.
[[nodiscard]] std::string to_json(const Card& card, gpu::Device* device, bool problems);

}  // namespace fovea::lab
