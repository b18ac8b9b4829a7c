// Calibration: what a model needs before it runs in 8 bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "fovea/encoder.hpp"
#include "fovea/job.hpp"

namespace fovea {

struct CalibrateOptions {
  /// As for Encoder; the file is written into the model's folder.
  std::string model;
  /// Photos of all the kinds that will be embedded.
  InputOptions input;
  /// How many of them to look at, the first ones. 32 are enough where they are of all kinds.
  int images = 32;
  /// kInt8 or kFp8.
  Precision precision = Precision::kInt8;
  /// Compute threads; 0: one for each CPU this process may use. The file does not depend on it.
  int threads = 0;
  /// Called with each input that could not be used.
  std::function<void(const JobFailure&)> on_failure;
};

struct CalibrateReport {
  std::filesystem::path file;  ///< what was written
  std::int64_t images = 0;     ///< looked at
  std::uint64_t failed = 0;    ///< inputs that could not be used
  double seconds = 0;
};

/// Runs the model in fp32 on the CPU over the photos, notes what every layer reads, and writes
/// 8-bit weights, rounded so that the layers' outputs change least, with the scales of activations,
/// as calibration-<precision>.safetensors beside the model. Throws fovea::Error when the model or
/// the inputs cannot be used.
CalibrateReport calibrate(const CalibrateOptions& options);

}  // namespace fovea
