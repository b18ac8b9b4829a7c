// Turns a model and what was observed of it into the file of 8-bit weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/thread_pool.hpp"
#include "fovea/precision.hpp"
#include "model/checkpoint.hpp"
#include "quantize/observer.hpp"

namespace fovea::quantize {

/// Rounds the layers of `checkpoint` by the observations, all but the first `bf16_layers`, and
/// writes the file, whose path it returns. `on_progress` is called with the number of rounded
/// layers, from any thread.
std::filesystem::path round_and_write(
    const model::Checkpoint& checkpoint, const Observations& observations, Precision precision,
    std::int64_t images, std::int64_t bf16_layers, ThreadPool& pool,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

}  // namespace fovea::quantize
