// The resize against a plain reference written from Pillow's definition, on every instruction set
// that this machine has, and fed in every orientation.
#include "image/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "fovea/error.hpp"
#include "image/encode.hpp"
#include "image/resize_kernels.hpp"
#include "image/row_resizer.hpp"

namespace fovea::image {
namespace {

using test::noise;
using Pixels = std::vector<std::uint8_t>;

double filter_weight(Resample filter, double x) {
  x = std::fabs(x);
  if (filter == Resample::kBilinear) {
    return x < 1 ? 1 - x : 0;
  }
  const double a = -0.5;
  if (x < 1) {
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  }
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// One pass along the axis whose samples are `step` apart, for `lines` starts.
Pixels pass(const Pixels& in, int in_size, int out_size, Resample filter, std::size_t lines,
            const auto& in_index, const auto& out_index) {
  Pixels out(lines * static_cast<std::size_t>(out_size));
  const double scale = static_cast<double>(in_size) / out_size;
  const double stretch = scale < 1 ? 1 : scale;
  const double support = (filter == Resample::kBilinear ? 1.0 : 2.0) * stretch;
  for (int o = 0; o < out_size; ++o) {
    const double center = (o + 0.5) * scale;
    const int from = std::max(0, static_cast<int>(center - support + 0.5));
    const int to = std::min(in_size, static_cast<int>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int i = from; i < to; ++i) {
      weights.push_back(filter_weight(filter, (i - center + 0.5) * (1.0 / stretch)));
      sum += weights.back();
    }
    for (std::size_t line = 0; line < lines; ++line) {
      std::int64_t total = 1 << 21;
      for (int i = from; i < to; ++i) {
        const double weight = weights[static_cast<std::size_t>(i - from)] / sum * (1 << 22);
        const auto rounded = static_cast<std::int64_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
        total += rounded * in[in_index(line, i)];
      }
      out[out_index(line, o)] =
          static_cast<std::uint8_t>(std::clamp<std::int64_t>(total >> 22, 0, 255));
    }
  }
  return out;
}

/// Pillow 13's Image.resize.
Pixels reference(const Image& image, int height, int width, Resample filter) {
  Pixels pixels(image.pixels.data(), image.pixels.data() + image.pixels.size());
  int w = image.width;
  int h = image.height;
  const auto horizontal = [&] {
    if (width == w) {
      return;
    }
    const auto at = [](int row_size) {
      return [row_size](std::size_t line, int x) {
        return (line / 3 * static_cast<std::size_t>(row_size) + static_cast<std::size_t>(x)) * 3 +
               line % 3;
      };
    };
    pixels = pass(pixels, w, width, filter, static_cast<std::size_t>(h) * 3, at(w), at(width));
    w = width;
  };
  const auto vertical = [&] {
    if (height == h) {
      return;
    }
    const auto row = static_cast<std::size_t>(w) * 3;
    const auto at = [row](std::size_t line, int y) {
      return line + static_cast<std::size_t>(y) * row;
    };
    pixels = pass(pixels, h, height, filter, row, at, at);
    h = height;
  };
  if (h > height && h - height > 2 * (w - width)) {
    vertical();
    horizontal();
  } else {
    horizontal();
    vertical();
  }
  return pixels;
}

struct Shape {
  int width;
  int height;
};
constexpr Shape kShapes[] = {{1, 1},    {1, 9},    {9, 1},    {2, 3},     {5, 4},   {16, 16},
                             {17, 31},  {100, 3},  {3, 100},  {224, 224}, {61, 47}, {300, 200},
                             {37, 512}, {700, 10}, {224, 90}, {90, 224}};

TEST(Resize, EqualsThePlainReferenceOnEveryInstructionSet) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  Resample filter = Resample::kBilinear;
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    ASSERT_STREQ(resize_target(), hwy::TargetName(target));
    for (const Shape& from : kShapes) {
      const Image image = noise(from.width, from.height);
      for (const Shape& to : kShapes) {
        // Both filters, in turn over the pairs of sizes.
        filter = filter == Resample::kBilinear ? Resample::kBicubic : Resample::kBilinear;
        Pixels out(static_cast<std::size_t>(to.width) * static_cast<std::size_t>(to.height) * 3);
        resize(image, to.height, to.width, filter, out);
        ASSERT_EQ(out, reference(image, to.height, to.width, filter))
            << hwy::TargetName(target) << ": " << from.width << "x" << from.height << " to "
            << to.width << "x" << to.height << " filter " << static_cast<int>(filter);
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Resize, OfTurnedRowsEqualsTurningFirst) {
  for (int exif = 1; exif <= 8; ++exif) {
    const Orientation orientation = to_orientation(exif);
    for (const Shape& from : kShapes) {
      for (const Shape& to : {Shape{224, 224}, Shape{61, 47}, Shape{47, 61}, Shape{1, 3}}) {
        Pixels out(static_cast<std::size_t>(to.width) * static_cast<std::size_t>(to.height) * 3);
        const Image image = noise(from.width, from.height);
        RowResizer resizer(
            {image.width, image.height, orientation, to.height, to.width, Resample::kBicubic}, out);
        // Bands of every size, as a decoder may give them.
        for (int row = 0, band = 1; row < image.height; band = band % kBandRows + 1) {
          const int count = std::min(band, image.height - row);
          for (int index = 0; index < count; ++index, ++row) {
            std::copy_n(image.pixels.data() + static_cast<std::ptrdiff_t>(row) * image.width * 3,
                        image.width * 3, resizer.slot(index));
          }
          resizer.feed(count);
        }
        const Image turned = oriented(noise(from.width, from.height), orientation);
        ASSERT_EQ(out, reference(turned, to.height, to.width, Resample::kBicubic))
            << "orientation " << exif << ", " << from.width << "x" << from.height << " to "
            << to.width << "x" << to.height;
      }
    }
  }
}

TEST(Resize, RefusesWhatHasNoResult) {
  const Image image = noise(4, 4);
  Pixels out(2 * 2 * 3);
  EXPECT_THROW(resize(image, 0, 2, Resample::kBilinear, out), Error);
  EXPECT_THROW(resize(image, 2, -1, Resample::kBilinear, out), Error);
  EXPECT_THROW(resize(Image(), 2, 2, Resample::kBilinear, out), Error);
  EXPECT_THROW(resize(image, 2, 3, Resample::kBilinear, out), Error);
  EXPECT_NO_THROW(resize(image, 2, 2, Resample::kBilinear, out));
}

}  // namespace
}  // namespace fovea::image
