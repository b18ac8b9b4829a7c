// Heat maps over pictures: where they are hot, and how they are coloured.
#include "search/heat_colours.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"

namespace fovea::search {
namespace {

constexpr int kWidth = 90;
constexpr int kHeight = 40;

std::vector<std::uint8_t> drawn(const HeatMap& map, std::uint8_t grey) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kWidth * kHeight * 3), grey);
  draw_heat(map, kWidth, kHeight, pixels);
  return pixels;
}

int sum_at(const std::vector<std::uint8_t>& pixels, int x, int y) {
  const std::size_t at = static_cast<std::size_t>(y * kWidth + x) * 3;
  return pixels[at] + pixels[at + 1] + pixels[at + 2];
}

double luminance(const std::array<std::uint8_t, 3>& colour) {
  const auto linear = [](std::uint8_t value) { return std::pow(value / 255.0, 2.2); };
  return 0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2]);
}

TEST(HeatColours, GrowLighterEvenly) {
  double before = -1;
  for (int step = 0; step <= 64; ++step) {
    const double now = std::cbrt(luminance(heat_colour(step / 64.0)));
    EXPECT_GT(now, before) << step;
    EXPECT_LT(now - std::max(before, 0.0), step == 0 ? 0.3 : 0.04) << step;
    before = now;
  }
  EXPECT_GT(before, 0.85);
}

// One hot patch of 4 x 6, then another: the lightest pixel is in the middle of it.
TEST(HeatColours, AreLightWhereTheMapIsHigh) {
  for (const auto& [row, column] : {std::pair(1, 4), std::pair(3, 0), std::pair(0, 5)}) {
    HeatMap map{.rows = 4, .columns = 6, .values = std::vector<float>(24, -0.25F)};
    map.values[static_cast<std::size_t>(row * 6 + column)] = 0.125F;
    const std::vector<std::uint8_t> pixels = drawn(map, 100);
    const int hot = sum_at(pixels, column * 15 + 7, row * 10 + 5);
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        const bool near = std::abs(x - column * 15 - 7) < 15 && std::abs(y - row * 10 - 5) < 10;
        ASSERT_LE(sum_at(pixels, x, y), hot + 25) << x << ", " << y;
        if (!near) {
          ASSERT_LT(sum_at(pixels, x, y), hot - 150) << x << ", " << y;
        }
      }
    }
    const auto colour = heat_colour(1);
    EXPECT_NEAR(pixels[static_cast<std::size_t>((row * 10 + 5) * kWidth + column * 15 + 7) * 3],
                0.65 * colour[0] + 0.35 * 100, 12);
  }
}

TEST(HeatColours, KeepThePictureInGrey) {
  const HeatMap flat{.rows = 2, .columns = 2, .values = {1, 1, 1, 1}};
  const auto dark = drawn(flat, 0);
  const auto light = drawn(flat, 200);
  EXPECT_NEAR(light[0] - dark[0], 70, 1);
  EXPECT_TRUE(std::ranges::all_of(dark, [&, at = 0](std::uint8_t value) mutable {
    return value == dark[static_cast<std::size_t>(at++ % 3)];
  })) << "a map without differences is of one colour";
}

TEST(HeatColours, MapsOfOtherSizesAreRefused) {
  std::vector<std::uint8_t> pixels(3);
  EXPECT_THROW(draw_heat({.rows = 2, .columns = 2, .values = {1, 2, 3}}, 1, 1, pixels), Error);
  EXPECT_THROW(draw_heat({}, 1, 1, pixels), Error);
}

}  // namespace
}  // namespace fovea::search
