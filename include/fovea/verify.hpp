// Checks on the user's own photos that a model's pixels are exact and each precision is close to
// fp32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/encoder.hpp"

namespace [[gnu::visibility("default")]] fovea {

struct VerifyOptions {
  /// Folder or hub name, as for Encoder.
  std::string model;
  /// Files, folders, tar archives or lists, as for embedding.
  std::vector<std::string> inputs;
  std::string device = "auto";
  std::filesystem::path calibration = {};  ///< as in EncoderOptions
  int threads = 0;
  /// Photos taken from the inputs, from the first on; 0: all of them.
  std::int64_t limit = 256;
  std::int64_t max_pixels = 0;  ///< larger photos are refused; see InputOptions
  /// Lowest mean of the photos' cosines to fp32, lowest cosine that any photo may have, and lowest
  /// mean recall. Difficult photos (silhouettes, codes) lose far more than the mean, in any program
  /// that computes in bf16, so the mean is the better indicator of a wrong result.
  double min_mean_cosine = 0.999;
  double min_mean_cosine_8bit = 0.995;  // for calibrated precisions
  double min_cosine = 0.99;
  double min_cosine_8bit = 0.95;  // for calibrated precisions
  double min_recall = 0.9;
  /// Called with the device, before anything is computed on it.
  std::function<void(std::string_view)> on_device;
  /// Called from any thread with the step of the work ("reading", "bf16"), the
  /// number done and the total, 0 if unknown.
  std::function<void(std::string_view step, std::uint64_t done, std::uint64_t total)> on_progress;
};

/// One precision against fp32 on the same pixels.
struct PrecisionCheck {
  Precision precision = Precision::kBf16;
  double cosine_mean = 0;
  /// The 1st percentile of the cosines, linearly interpolated.
  double cosine_percentile_1 = 0;
  double cosine_min = 0;
  /// Source of the photo with the lowest cosine.
  std::string worst;
  /// Share of each photo's 10 nearest neighbours (fewer when there are fewer photos) in fp32 that
  /// are also its nearest neighbours in this precision, averaged over photos.
  double recall = 0;
  bool passed = false;
};

struct VerifyReport {
  std::string device;
  std::int64_t photos = 0;
  std::int64_t failed_inputs = 0;
  /// Photos whose resized pixels differ from the plain reference resize of the decoded image.
  std::int64_t photos_with_wrong_pixels = 0;
  std::vector<PrecisionCheck> precisions;
  /// Precisions that the device does not have, each with the reason.
  std::vector<std::string> refused;
  /// Pixels exact, and every precision within its limits.
  bool passed = false;
};

/// Runs the checks. Unreadable inputs are only counted. Throws fovea::Error when the model or the
/// device is unavailable, or when there are fewer than two readable photos.
[[nodiscard]] VerifyReport verify(const VerifyOptions& options);

}  // namespace fovea
