// The composition root: the only place that knows every backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
#include "ops/backend.hpp"

namespace fovea {

/// Makes the backend that `options` ask for; `auto` takes the best at hand.
/// Throws fovea::Error with the reason when a named device or precision is not to be had.
[[nodiscard]] std::unique_ptr<ops::Backend> make_backend(const EncoderOptions& options);

/// The GPUs that can be used, "NVIDIA H200 (sm_90, 139.8 GiB)"; empty when there are none, with the
/// reason in `why`.
[[nodiscard]] std::vector<std::string> describe_gpus(std::string& why);

}  // namespace fovea
