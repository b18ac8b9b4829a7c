// The size that images become; tests/image/test_naflex_pixels.py compares it with transformers'.
#include "image/target_size.hpp"

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "image/decode.hpp"
#include "image/encode.hpp"

namespace fovea::image {
namespace {

constexpr Preprocessing kNaflex{.height = 0, .width = 0, .patch = 16, .max_patches = 256};

TEST(TargetSize, IsTheSameForEveryImageOfAFixedResolution) {
  const Preprocessing fixed{.height = 224, .width = 160};
  EXPECT_EQ(target_size(fixed, 1, 5000), (TargetSize{.height = 224, .width = 160}));
  EXPECT_EQ(max_target_pixels(fixed), 224 * 160);
}

// transformers 5.24, get_image_size_for_max_num_patches.
TEST(TargetSize, IsWhatTransformersFinds) {
  const auto check = [](int height, int width, int rows, int columns) {
    EXPECT_EQ(target_size(kNaflex, height, width),
              (TargetSize{.height = rows * 16, .width = columns * 16}))
        << height << "x" << width;
  };
  check(256, 256, 16, 16);  // fits exactly
  check(480, 640, 14, 18);  // most photos
  check(640, 480, 18, 14);  // and on their sides
  check(1, 1, 7, 7);        // at most 100 times as large
  check(30, 4000, 1, 134);  // a second row of patches would be too many
  check(1, 16'777'216, 1, 252);
}

TEST(TargetSize, NeverExceedsThePatches) {
  for (const int patch : {1, 14, 16, 32}) {
    for (const int most : {1, 2, 255, 256, 1024}) {
      const Preprocessing model{.height = 0, .width = 0, .patch = patch, .max_patches = most};
      for (const int height : {1, 3, 17, 224, 999, 10'000}) {
        for (const int width : {1, 2, 16, 400, 20'000}) {
          const auto [rows, columns] = target_size(model, height, width);
          EXPECT_EQ(rows % patch, 0);
          EXPECT_EQ(columns % patch, 0);
          EXPECT_GE(rows * columns, patch * patch);
          EXPECT_LE(rows / patch * (columns / patch), most);
        }
      }
    }
  }
  EXPECT_EQ(max_target_pixels(kNaflex), 256 * 16 * 16);
}

TEST(TargetSize, RefusesWhatFitsAtNoScale) {
  const Preprocessing one{.height = 0, .width = 0, .patch = 16, .max_patches = 1};
  EXPECT_NO_THROW((void)target_size(one, 1, 10'000'000));
  EXPECT_THROW((void)target_size(one, 1, 20'000'000), Error);
}

}  // namespace
}  // namespace fovea::image
