// Preprocessing of photos to pixels: the part of preprocessor_config.json that Fovea uses.
#pragma once

#include <array>
#include <cstdint>

namespace [[gnu::visibility("default")]] fovea {

/// Pillow's resampling filters, numbered as in preprocessor_config.json.
enum class Resample : std::uint8_t { kBilinear = 2, kBicubic = 3 };

/// The size of an image in patches.
struct PatchGrid {
  int height = 0;
  int width = 0;

  [[nodiscard]] std::int64_t patches() const { return std::int64_t{height} * width; }

  friend bool operator==(const PatchGrid&, const PatchGrid&) = default;
};

/// An image is resized to `height` x `width`, whatever its proportions, or, for a NaFlex model, to
/// a size of its own; then each value v becomes (v * rescale - mean) / std, per channel.
struct Preprocessing {
  int height = 224;
  int width = 224;
  Resample resample = Resample::kBilinear;
  float rescale = 1.0F / 255.0F;
  std::array<float, 3> mean{0.5F, 0.5F, 0.5F};
  std::array<float, 3> std{0.5F, 0.5F, 0.5F};
  /// Limits of NaFlex models, for which `height` and `width` are 0: an image keeps its proportions,
  /// as far as whole patches of `patch` x `patch` pixels allow, and becomes as large as
  /// `max_patches` permit. 0 for all others.
  int patch = 0;
  int max_patches = 0;

  /// Whether images keep their proportions, so that each has a size of its own.
  [[nodiscard]] bool keeps_proportions() const { return max_patches > 0; }

  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

}  // namespace fovea
