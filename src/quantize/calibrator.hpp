// Computes the calibration file, with 8-bit weights, from a model and its observed activations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/thread_pool.hpp"
#include "fovea/precision.hpp"
#include "model/checkpoint.hpp"
#include "quantize/observer.hpp"

namespace fovea::quantize {

/// Rounds the layers of `checkpoint`, except the first `bf16_layers`, based on the observations of
/// `images` images. Writes the calibration file and returns its path. `on_progress` is called with
/// the number of rounded layers, on any thread.
std::filesystem::path round_and_write(
    const model::Checkpoint& checkpoint, const Observations& observations, Precision precision,
    std::int64_t images, std::int64_t bf16_layers, ThreadPool& pool,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

}  // namespace fovea::quantize
