// Blends heat maps, with colours from Oklab (bottosson.github.io/posts/oklab, public domain).
#include "search/heat_colours.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "core/error.hpp"

namespace fovea::search {
namespace {

constexpr std::size_t kColourSteps = 256;
constexpr double kHeatShare = 0.65;  // the weight of the heat colour; that of grey is the rest

std::uint8_t srgb_byte(double linear) {
  const double light = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(encoded * 255));
}

/// The four patches nearest to the centre of a pixel and their Catmull-Rom weights, when `count`
/// patches cover `length` pixels. Indices beyond the ends are clamped.
struct Taps {
  std::array<std::size_t, 4> index{};
  std::array<double, 4> weight{};

  Taps(int pixel, int length, std::int64_t count) {
    const double position = (pixel + 0.5) * static_cast<double>(count) / length - 0.5;
    const double floor = std::floor(position);
    const double t = position - floor;
    weight = {((2 - t) * t - 1) * t / 2, ((3 * t - 5) * t * t + 2) / 2,
              ((4 - 3 * t) * t + 1) * t / 2, (t - 1) * t * t / 2};
    for (std::size_t tap = 0; tap < index.size(); ++tap) {
      const auto patch = static_cast<std::int64_t>(floor) - 1 + static_cast<std::int64_t>(tap);
      index[tap] = static_cast<std::size_t>(std::clamp<std::int64_t>(patch, 0, count - 1));
    }
  }
};

}  // namespace

std::array<std::uint8_t, 3> heat_colour(double share) {
  const double lightness = 0.22 + 0.70 * share;
  const double chroma = 0.12 + 0.09 * std::sin(std::numbers::pi * share);
  const double hue = (300 + 165 * share) * std::numbers::pi / 180;  // violet over red to yellow
  const double a = chroma * std::cos(hue);
  const double b = chroma * std::sin(hue);
  const auto cube = [](double value) { return value * value * value; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {srgb_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          srgb_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          srgb_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

void draw_heat(const HeatMap& map, int width, int height, std::span<std::uint8_t> pixels) {
  if (map.rows < 1 || map.columns < 1 ||
      map.values.size() != static_cast<std::size_t>(map.rows * map.columns)) {
    fail("the heat map has {} values, which do not match its size of {}x{}", map.values.size(),
         map.rows, map.columns);
  }
  const auto columns = static_cast<std::size_t>(map.columns);
  const auto [min_value, max_value] = std::ranges::minmax(map.values);
  const double range = static_cast<double>(max_value) - min_value;
  std::array<std::array<std::uint8_t, 3>, kColourSteps> colours{};
  for (std::size_t step = 0; step < kColourSteps; ++step) {
    colours[step] = heat_colour(static_cast<double>(step) / (kColourSteps - 1));
  }
  // Columns are interpolated first, because a map has fewer rows than the picture.
  const auto row_pixels = static_cast<std::size_t>(width);
  std::vector<double> stretched_rows(static_cast<std::size_t>(map.rows) * row_pixels);
  for (int x = 0; x < width; ++x) {
    const Taps taps(x, width, map.columns);
    for (std::size_t row = 0; row < static_cast<std::size_t>(map.rows); ++row) {
      double sum = 0;
      for (std::size_t tap = 0; tap < taps.index.size(); ++tap) {
        sum += taps.weight[tap] * (map.values[row * columns + taps.index[tap]] - double{min_value});
      }
      stretched_rows[row * row_pixels + static_cast<std::size_t>(x)] = range > 0 ? sum / range : 0;
    }
  }
  std::uint8_t* pixel = pixels.data();
  for (int y = 0; y < height; ++y) {
    const Taps taps(y, height, map.rows);
    for (std::size_t x = 0; x < row_pixels; ++x, pixel += 3) {
      double share = 0;
      for (std::size_t tap = 0; tap < taps.index.size(); ++tap) {
        share += taps.weight[tap] * stretched_rows[taps.index[tap] * row_pixels + x];
      }
      const auto& colour = colours[static_cast<std::size_t>(
          std::lround(std::clamp(share, 0.0, 1.0) * (kColourSteps - 1)))];
      const double grey = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
      for (std::size_t channel = 0; channel < 3; ++channel) {
        pixel[channel] = static_cast<std::uint8_t>(
            std::lround(kHeatShare * colour[channel] + (1 - kHeatShare) * grey));
      }
    }
  }
}

}  // namespace fovea::search
