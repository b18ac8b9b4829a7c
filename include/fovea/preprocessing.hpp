// How photos become pixels: the part of preprocessor_config.json that Fovea acts on.
#pragma once

#include <array>
#include <cstdint>

namespace [[gnu::visibility("default")]] fovea {

/// Pillow's resampling filters, numbered as in preprocessor_config.json.
enum class Resample : std::uint8_t { kBilinear = 2, kBicubic = 3 };

/// An image is resized to `height` x `width`, whatever its proportions; then each value v becomes
/// (v * rescale - mean) / std, per channel.
struct Preprocessing {
  int height = 224;
  int width = 224;
  Resample resample = Resample::kBilinear;
  float rescale = 1.0F / 255.0F;
  std::array<float, 3> mean{0.5F, 0.5F, 0.5F};
  std::array<float, 3> std{0.5F, 0.5F, 0.5F};

  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

}  // namespace fovea
