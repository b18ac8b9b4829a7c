// run_job: passes inputs through the loader, the encoder and the writer, which all work at once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "fovea/job.hpp"
#include "fovea/preprocessing.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/loader.hpp"
#include "pipeline/output.hpp"

namespace fovea::pipeline {

/// Turns the patches of images, one image after the other, into rows: embeddings float32 [images,
/// dimension], or what RunOptions::stores_results says; `grids` has as many entries as there are
/// images: their Slot::grid. Calls `on_computed` from any thread whenever some of them are done.
/// Throws Interrupted when it is stopped early.
using OnComputed = std::function<void(std::int64_t images)>;
using Encode =
    std::function<void(std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                       std::span<std::byte> rows, const OnComputed& on_computed)>;

struct RunOptions {
  LoaderOptions loader;
  bool normalize = true;
  OutputDType dtype = OutputDType::kF32;
  /// What Encode gives, numbers of `dtype`, is stored as it is. Without it Encode gives embeddings,
  /// which are stored as store_embedding says.
  bool stores_results = false;
  std::optional<std::uint64_t> max_errors;
  std::uint64_t rows_before = 0;  // of earlier runs on the output
  std::uint64_t failed_before = 0;
  /// Counts the inputs for the estimate of the time left, in a separate thread, until the flag is
  /// set. Empty: inputs are not counted.
  std::function<std::optional<std::uint64_t>(StopFlag stop)> count_inputs;
  JobControl control;
};

/// Runs to the end of the inputs, or until JobControl::stop; then appends every batch that is
/// computed as a whole and makes a checkpoint, but does not finish the output. `make_encode` is
/// called once, in the calling thread, while the first images are being decoded; when it is empty
/// the pixels themselves are stored. Throws fovea::Error, after a checkpoint where that is
/// possible, when the output cannot be written, the inputs cannot be enumerated, or more than
/// `max_errors` inputs failed.
[[nodiscard]] JobReport run_job(const RunOptions& options, InputStream& inputs,
                                const std::function<Prepare()>& make_prepare,
                                const std::function<Encode()>& make_encode, Output& output);

/// Returns the bytes of rows as float32 numbers.
[[nodiscard]] inline std::span<float> floats_of(std::span<std::byte> rows) {
  return {reinterpret_cast<float*>(rows.data()), rows.size() / sizeof(float)};
}

/// Scales an embedding to length 1 (norm in float64) when `normalize`, and stores it as `dtype`.
/// False, with `stored` undefined, when a stored number would not be finite.
[[nodiscard]] bool store_embedding(std::span<const float> embedding, bool normalize,
                                   OutputDType dtype, std::byte* stored);

}  // namespace fovea::pipeline
