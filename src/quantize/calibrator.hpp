// Turns a model and what was observed of it into the file of 8-bit weights.
#pragma once

#include <cstdint>
#include <span>

#include "core/thread_pool.hpp"
#include "fovea/precision.hpp"
#include "model/checkpoint.hpp"
#include "quantize/observer.hpp"

namespace fovea::quantize {

/// Rounds every calibrated layer of `checkpoint` by the observations, and writes the file.
void round_and_write(const model::Checkpoint& checkpoint, const Observations& observations,
                     Precision precision, std::int64_t images, ThreadPool& pool);

}  // namespace fovea::quantize
