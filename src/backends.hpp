// The composition root: the only place that knows every backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/encoder.hpp"
#include "ops/backend.hpp"
#include "search/row_scanner.hpp"

namespace fovea {

/// Makes the backend that `options` ask for; `auto` takes the best one available. When that is the
/// CPU although there is a GPU, the backend's note says why.
/// Throws fovea::Error with the reason when a named device or precision is unavailable.
[[nodiscard]] std::unique_ptr<ops::Backend> make_backend(const EncoderOptions& options);

/// Where searches compare rows, by the name of a device; nowhere else for "cpu". A GPU that is
/// asked for is opened at once, and one that `auto` may take when it is first wanted. Throws
/// fovea::Error with the reason when a named device is unavailable.
[[nodiscard]] search::OtherDevice device_for_search(const std::string& device);

/// The highest instruction set that computes, or may, on the CPU: "avx512_bf16". Throws
/// fovea::Error when FOVEA_CPU_ISA names none.
[[nodiscard]] std::string cpu_instruction_set();

/// Whether device `auto` is a GPU on this machine, for precisions that a GPU has.
[[nodiscard]] bool auto_takes_gpu();

/// The GPUs by index: "NVIDIA H200 (sm_90, 139.8 GiB)", or the reason why one is unusable. Empty
/// when there are none, with the reason in `why`.
[[nodiscard]] std::vector<std::string> describe_gpus(std::string& why);

}  // namespace fovea
