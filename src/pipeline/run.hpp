// run_job: passes inputs through the loader, the encoder and the writer, which work concurrently.
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

/// Is called with the number of images that have been computed since the last call, on any thread.
using OnComputed = std::function<void(std::int64_t images)>;
/// Encodes the packed patches of images into rows: embeddings, float32 [images, dimension], or
/// results in the dtype of the output (see RunOptions::stores_results). `grids`: Slot::grid of each
/// image. Throws Interrupted when it is stopped early.
using Encode =
    std::function<void(std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                       std::span<std::byte> rows, const OnComputed& on_computed)>;

struct RunOptions {
  LoaderOptions loader;
  bool normalize = true;
  OutputDType dtype = OutputDType::kF32;
  /// Whether Encode returns numbers of `dtype`, which are stored unchanged. Otherwise it returns
  /// embeddings, which are stored by store_embedding().
  bool stores_results = false;
  std::optional<std::uint64_t> max_errors;
  std::uint64_t rows_before = 0;  // from earlier runs on this output
  std::uint64_t failed_before = 0;
  /// Counts the inputs for the estimate of the time left; ends when the flag is set. Called on a
  /// separate thread. Empty: the inputs are not counted.
  std::function<std::optional<std::uint64_t>(StopFlag stop)> count_inputs;
  JobControl control;
};

/// Processes the inputs to their end, or until JobControl::stop is set. Appends all batches that
/// are computed completely and makes a checkpoint, but does not finish the output. `make_encode` is
/// called once, on the calling thread, while the first images are being decoded; when it is empty,
/// the pixels themselves are stored. Throws fovea::Error, after a checkpoint where that is
/// possible, when the output cannot be written, the inputs cannot be listed, or more than
/// `max_errors` inputs have failed.
[[nodiscard]] JobReport run_job(const RunOptions& options, InputStream& inputs,
                                const std::function<Prepare()>& make_prepare,
                                const std::function<Encode()>& make_encode, Output& output);

/// Returns the bytes of rows as float32 numbers.
[[nodiscard]] inline std::span<float> as_floats(std::span<std::byte> rows) {
  return {reinterpret_cast<float*>(rows.data()), rows.size() / sizeof(float)};
}

/// Stores an embedding as `dtype`; scales it to length 1 first when `normalize` is set, with the
/// length in float64. Returns false, with undefined content of `stored`, when a number would not be
/// finite.
[[nodiscard]] bool store_embedding(std::span<const float> embedding, bool normalize,
                                   OutputDType dtype, std::byte* stored);

}  // namespace fovea::pipeline
