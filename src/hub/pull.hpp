// pull: fetches a model from a hub into the local cache.
#pragma once

#include <filesystem>
#include <functional>

#include "fovea/hub.hpp"

namespace fovea::hub {

/// See fovea::pull.
[[nodiscard]] std::filesystem::path pull_model(
    const PullOptions& options, const std::function<void(const PullProgress&)>& progress);

}  // namespace fovea::hub
