// Calibration: how large activations get on a user's images, kept in a file beside the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace fovea::model {

/// Largest values seen in one layer.
struct LayerPeaks {
  double attended = 0;  // |attention's output|
  double inner = 0;     // GELU's output
};

struct Calibration {
  std::int64_t images = 0;
  std::vector<LayerPeaks> layers;
};

inline constexpr std::string_view kCalibrationFile = "calibration.json";

/// The calibration in a model folder; nothing when there is no such file. Throws fovea::Error when
/// the file is damaged or was made for another number of layers.
[[nodiscard]] std::optional<Calibration> read_calibration(const std::filesystem::path& folder,
                                                          std::int64_t layers);

/// Whole or not at all.
void write_calibration(const std::filesystem::path& folder, const Calibration& calibration);

}  // namespace fovea::model
