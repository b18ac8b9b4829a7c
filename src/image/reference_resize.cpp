// Pillow's resampling, scalar: python-pillow/Pillow src/libImaging/Resample.c, 8 bits a channel.
#include "image/reference_resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace fovea::image {
namespace {

// Weights are integers in units of 2^-22: 8 bits of the pixel and 2 of headroom fill 32.
constexpr int kWeightBits = 32 - 8 - 2;
constexpr double kBicubicA = -0.5;

double support_of(Resample filter) { return filter == Resample::kBilinear ? 1.0 : 2.0; }

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

std::vector<Tap> taps_of(int in, int out, Resample filter) {
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = support_of(filter) * stretch;
  std::vector<Tap> taps(static_cast<std::size_t>(out));
  for (int position = 0; position < out; ++position) {
    const double center = (position + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int last = std::min(in, static_cast<int>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int x = first; x < last; ++x) {
      weights.push_back(weight_at(filter, (x - center + 0.5) * (1.0 / stretch)));
      sum += weights.back();
    }
    Tap& tap = taps[static_cast<std::size_t>(position)];
    tap.first = first;
    for (const double weight : weights) {
      const double units = (sum != 0.0 ? weight / sum : weight) * (1 << kWeightBits);
      tap.weights.push_back(static_cast<std::int32_t>(units < 0 ? units - 0.5 : units + 0.5));
    }
  }
  return taps;
}

std::uint8_t round_to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

}  // namespace

void reference_resize(const Image& source, int height, int width, Resample filter,
                      std::span<std::uint8_t> out) {
  constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);
  const auto index = [](int row, int column, int columns, int channel) {
    return (static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
            static_cast<std::size_t>(column)) *
               kChannels +
           static_cast<std::size_t>(channel);
  };
  // Horizontally, then vertically, rounding to bytes in between. A pass that changes no size is
  // the identity, by these very weights.
  const std::vector<Tap> across = taps_of(source.width, width, filter);
  Image narrow(width, source.height);
  for (int row = 0; row < source.height; ++row) {
    for (int column = 0; column < width; ++column) {
      const Tap& tap = across[static_cast<std::size_t>(column)];
      for (int channel = 0; channel < kChannels; ++channel) {
        std::int32_t sum = kHalf;
        for (std::size_t k = 0; k < tap.weights.size(); ++k) {
          sum += tap.weights[k] * source.pixels[index(row, tap.first + static_cast<int>(k),
                                                      source.width, channel)];
        }
        narrow.pixels[index(row, column, width, channel)] = round_to_byte(sum);
      }
    }
  }
  const std::vector<Tap> down = taps_of(source.height, height, filter);
  for (int row = 0; row < height; ++row) {
    const Tap& tap = down[static_cast<std::size_t>(row)];
    for (int column = 0; column < width; ++column) {
      for (int channel = 0; channel < kChannels; ++channel) {
        std::int32_t sum = kHalf;
        for (std::size_t k = 0; k < tap.weights.size(); ++k) {
          sum += tap.weights[k] *
                 narrow.pixels[index(tap.first + static_cast<int>(k), column, width, channel)];
        }
        out[index(row, column, width, channel)] = round_to_byte(sum);
      }
    }
  }
}

}  // namespace fovea::image
