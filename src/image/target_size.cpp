// The search for the scale of a NaFlex image.
#include "image/target_size.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/error.hpp"

namespace fovea::image {
namespace {

/// Returns the number of patches along a scaled side, rounded up, and at least one.
std::int64_t patches_along(int side, double scale, int patch) {
  return std::max(std::int64_t{1}, static_cast<std::int64_t>(std::ceil(side * scale / patch)));
}

}  // namespace

TargetSize target_size(const Preprocessing& preprocessing, int height, int width) {
  if (!preprocessing.keeps_proportions()) {
    return {.height = preprocessing.height, .width = preprocessing.width};
  }
  constexpr double kPrecision = 1e-5;
  const int patch = preprocessing.patch;
  const auto fits = [&](double scale) {
    return patches_along(height, scale, patch) * patches_along(width, scale, patch) <=
           preprocessing.max_patches;
  };
  double low = kPrecision / 10;
  double high = 100;
  if (!fits(low)) {
    fail("{}x{} pixels do not fit into {} patches of {}x{} pixels, however small they become",
         width, height, preprocessing.max_patches, patch, patch);
  }
  while (high - low >= kPrecision) {
    const double middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return {.height = static_cast<int>(patches_along(height, low, patch)) * patch,
          .width = static_cast<int>(patches_along(width, low, patch)) * patch};
}

TargetSize typical_photo_size(std::uint64_t number) {
  constexpr TargetSize kPhotos[] = {{1200, 1600}, {1600, 1200}, {1000, 1500}, {1500, 1000},
                                    {900, 1600},  {1600, 900},  {1200, 1200}, {800, 2400}};
  return kPhotos[number % std::size(kPhotos)];
}

std::int64_t max_target_pixels(const Preprocessing& preprocessing) {
  return preprocessing.keeps_proportions()
             ? std::int64_t{preprocessing.max_patches} * preprocessing.patch * preprocessing.patch
             : std::int64_t{preprocessing.height} * preprocessing.width;
}

}  // namespace fovea::image
