// The size that an image is resized to.
#pragma once

#include <cstdint>

#include "fovea/preprocessing.hpp"

namespace fovea::image {

struct TargetSize {
  int height = 0;
  int width = 0;

  friend bool operator==(const TargetSize&, const TargetSize&) = default;
};

/// What an upright image of `height` x `width` pixels is resized to. For a NaFlex model that is
/// what transformers finds (transformers 5.24 models/siglip2/image_processing_pil_siglip2.py,
/// get_image_size_for_max_num_patches), in its order of float64 operations, on which the last patch
/// of some proportions depends. Throws fovea::Error when the image, which is then millions of
/// pixels long, does not fit into so few patches.
[[nodiscard]] TargetSize target_size(const Preprocessing& preprocessing, int height, int width);

/// The size of a photo as cameras and phones take them, in any of their proportions, by `number`:
/// what images that are made up for a NaFlex model become when they are resized.
[[nodiscard]] TargetSize usual_photo(std::uint64_t number);

/// The most pixels, height * width, that images are resized to.
[[nodiscard]] std::int64_t most_target_pixels(const Preprocessing& preprocessing);

}  // namespace fovea::image
