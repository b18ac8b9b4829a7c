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

/// Returns the size to which an upright image of `height` x `width` pixels is resized. For a NaFlex
/// model it is that of transformers (5.24, models/siglip2/image_processing_pil_siglip2.py,
/// get_image_size_for_max_num_patches), computed in the same order of float64 operations, since
/// rounding can change the number of patches. Throws fovea::Error when an image that is millions of
/// pixels long does not fit into the patches.
[[nodiscard]] TargetSize target_size(const Preprocessing& preprocessing, int height, int width);

/// Returns the resized size of a typical photo, with the aspect ratio chosen by `number`, for the
/// synthetic inputs of a NaFlex model.
[[nodiscard]] TargetSize typical_photo_size(std::uint64_t number);

/// Returns the maximum number of pixels, height * width, of a resized image.
[[nodiscard]] std::int64_t max_target_pixels(const Preprocessing& preprocessing);

}  // namespace fovea::image
