// Pillow 13's resampling, scalar: python-pillow/Pillow src/libImaging/Resample.c, 8 bits per
// channel.
#include "image/reference_resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace fovea::image {
namespace {

// The fraction bits of a weight: a 32-bit sum also holds 8 bits of the pixel and 2 of headroom.
constexpr int kPrecisionBits = 32 - 8 - 2;
constexpr double kBicubicA = -0.5;

double filter_support(Resample filter) {
  return filter == Resample::kBilinear ? 1.0 : 2.0;
}

double weight_at(Resample filter, double x) {
  x = std::abs(x);
  if (filter == Resample::kBilinear) {
    return x < 1.0 ? 1.0 - x : 0.0;
  }
  if (x < 1.0) {
    return ((kBicubicA + 2.0) * x - (kBicubicA + 3.0)) * x * x + 1;
  }
  if (x < 2.0) {
    return (((x - 5) * x + 8) * x - 4) * kBicubicA;
  }
  return 0.0;
}

// One output position: a weighted sum of inputs [first, first + weights.size()).
struct Tap {
  int first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Tap> compute_taps(int in, int out, Resample filter) {
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = filter_support(filter) * stretch;
  std::vector<Tap> taps(static_cast<std::size_t>(out));
  for (int position = 0; position < out; ++position) {
    const double center = (position + 0.5) * scale;
    const double left = center - support + 0.5;
    const double right = center + support + 0.5;
    const int first = std::max(0, static_cast<int>(left));
    const int last = std::min(in, static_cast<int>(right));
    std::vector<double> weights;
    double sum = 0;
    for (int x = first; x < last; ++x) {
      weights.push_back(weight_at(filter, (x - center + 0.5) * (1.0 / stretch)));
      sum += weights.back();
    }
    Tap& tap = taps[static_cast<std::size_t>(position)];
    tap.first = first;
    for (const double weight : weights) {
      const double units = (sum != 0.0 ? weight / sum : weight) * (1 << kPrecisionBits);
      tap.weights.push_back(static_cast<std::int32_t>(units < 0 ? units - 0.5 : units + 0.5));
    }
  }
  return taps;
}

std::uint8_t round_to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

enum class Axis : std::uint8_t { kHorizontal, kVertical };

std::size_t pixel_index(const Image& image, int row, int column, int channel) {
  return (static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) +
          static_cast<std::size_t>(column)) *
             kChannels +
         static_cast<std::size_t>(channel);
}

// Computes one pass, rounded to bytes. The weights of a pass that changes no size are the identity.
Image resample(const Image& source, Axis axis, int size, Resample filter) {
  const bool horizontal = axis == Axis::kHorizontal;
  const std::vector<Tap> taps =
      compute_taps(horizontal ? source.width : source.height, size, filter);
  Image result(horizontal ? size : source.width, horizontal ? source.height : size);
  for (int row = 0; row < result.height; ++row) {
    for (int column = 0; column < result.width; ++column) {
      const Tap& tap = taps[static_cast<std::size_t>(horizontal ? column : row)];
      for (int channel = 0; channel < kChannels; ++channel) {
        std::int32_t sum = 1 << (kPrecisionBits - 1);
        int position = tap.first;
        for (const std::int32_t weight : tap.weights) {
          sum +=
              weight * source.pixels[horizontal ? pixel_index(source, row, position, channel)
                                                : pixel_index(source, position, column, channel)];
          ++position;
        }
        result.pixels[pixel_index(result, row, column, channel)] = round_to_byte(sum);
      }
    }
  }
  return result;
}

}  // namespace

void reference_resize(const Image& source, int height, int width, Resample filter,
                      std::span<std::uint8_t> out) {
  // The result depends on the order of the passes, since pixels are rounded between them.
  const int rows_lost = source.height - height;
  const int columns_lost = source.width - width;
  const bool vertical_first = rows_lost > 0 && rows_lost > 2 * columns_lost;
  const Image result = vertical_first ? resample(resample(source, Axis::kVertical, height, filter),
                                                 Axis::kHorizontal, width, filter)
                                      : resample(resample(source, Axis::kHorizontal, width, filter),
                                                 Axis::kVertical, height, filter);
  std::ranges::copy(result.pixels.span(), out.begin());
}

}  // namespace fovea::image
