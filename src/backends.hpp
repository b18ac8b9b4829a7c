// The composition root: the only place that knows every backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
#include "ops/backend.hpp"

namespace fovea {

/// Makes the backend that `options` ask for; `auto` takes the best at hand. When that is the CPU
/// although there is a GPU, the backend's note says why.
/// Throws fovea::Error with the reason when a named device or precision is not to be had.
[[nodiscard]] std::unique_ptr<ops::Backend> make_backend(const EncoderOptions& options);

/// Whether device `auto` is a GPU here, for precisions that a GPU has.
[[nodiscard]] bool auto_takes_gpu();

/// The GPUs by index, "NVIDIA H200 (sm_90, 139.8 GiB)", or why one of them cannot be used; empty
/// when there are none, with the reason in `why`.
[[nodiscard]] std::vector<std::string> describe_gpus(std::string& why);

}  // namespace fovea
