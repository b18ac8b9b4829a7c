// Calibration: prepares a model to run in 8 bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/encoder.hpp"
#include "fovea/job.hpp"

namespace [[gnu::visibility("default")]] fovea {

struct CalibrateOptions {
  std::string model;  ///< as for Encoder
  /// The folder to write to, created when it does not exist. It must not be shared with other
  /// models. Empty: the environment variable FOVEA_CALIBRATION, else the model's folder; when that
  /// is not writable or lies in the Hugging Face cache, a subfolder of
  /// $XDG_CACHE_HOME/fovea/calibrations named after the weights. Encoders search the same places.
  std::filesystem::path calibration = {};
  /// Photos of all the kinds that will be embedded.
  InputOptions input;
  /// Number of photos to use, from the first on. 32 suffice when they are diverse.
  int images = 32;
  /// If not empty, also calibrates the text tower, with these texts: a few hundred of the kinds
  /// that will be embedded.
  std::vector<std::string> texts;
  /// Precisions that need calibration (see kPrecisions). The photos are read once for all of them.
  std::vector<Precision> precisions = {Precision::kInt8};
  /// Number of leading layers of the image tower that are computed in bf16, because rounding their
  /// activations causes most of the accuracy loss of 8 bits. Each one makes the model slower.
  int bf16_layers = 0;
  /// Compute threads; 0: one per CPU that this process may use. The file does not depend on it.
  int threads = 0;
  /// Called with each input that could not be used.
  std::function<void(const JobFailure&)> on_failure;
  /// Called with the device, before anything is computed.
  std::function<void(std::string_view)> on_device;
  /// Called from any thread with the step of the work ("recording", "rounding for int8"), its unit
  /// ("photos", "texts", "layers"), the number done and the total.
  std::function<void(std::string_view step, std::string_view unit, std::uint64_t done,
                     std::uint64_t total)>
      on_progress;
};

struct CalibrateReport {
  std::vector<std::filesystem::path>
      files;                 ///< the files that were written, one per precision and tower
  std::int64_t images = 0;   ///< photos that were used
  std::uint64_t failed = 0;  ///< inputs that could not be used
  double seconds = 0;
};

/// Runs the model in fp32 on the CPU over the photos and records the inputs of every layer. Writes
/// 8-bit weights, rounded so that the layers' outputs change least, with the scales of activations,
/// as calibration-<precision>.safetensors, and for the text tower
/// calibration-<precision>-text.safetensors. Throws fovea::Error when the precision needs no
/// calibration, when the model has fewer than `bf16_layers` layers, when the model or all inputs
/// are unusable, or when the file cannot be written.
CalibrateReport calibrate(const CalibrateOptions& options);

}  // namespace fovea
