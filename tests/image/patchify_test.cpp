// Patch-major layout.
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "image/resize.hpp"

namespace fovea::image {
namespace {

TEST(Patchify, KeepsRowsColumnsAndChannelsOfEachPatchInImageOrder) {
  constexpr int kHeight = 7;
  constexpr int kWidth = 5;
  constexpr int kPatch = 2;
  std::vector<std::uint8_t> pixels(kHeight * kWidth * 3);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  std::vector<std::uint8_t> patches(3 * 2 * kPatch * kPatch * 3);
  patchify(pixels, kHeight, kWidth, kPatch, patches);
  std::size_t at = 0;
  for (int down = 0; down < 3; ++down) {
    for (int across = 0; across < 2; ++across) {
      for (int y = 0; y < kPatch; ++y) {
        for (int x = 0; x < kPatch; ++x) {
          for (int channel = 0; channel < 3; ++channel) {
            const int row = down * kPatch + y;
            const int column = across * kPatch + x;
            ASSERT_EQ(patches[at++], (row * kWidth + column) * 3 + channel);
          }
        }
      }
    }
  }
  EXPECT_EQ(at, patches.size());
}

TEST(Patchify, RefusesWrongSizes) {
  std::vector<std::uint8_t> pixels(4 * 4 * 3);
  std::vector<std::uint8_t> patches(4 * 4 * 3);
  EXPECT_NO_THROW(patchify(pixels, 4, 4, 2, patches));
  EXPECT_THROW(patchify(pixels, 4, 5, 2, patches), Error);
  EXPECT_THROW(patchify(pixels, 4, 4, 5, patches), Error);
  EXPECT_THROW(patchify(pixels, 4, 4, 0, patches), Error);
  patches.pop_back();
  EXPECT_THROW(patchify(pixels, 4, 4, 2, patches), Error);
}

}  // namespace
}  // namespace fovea::image
