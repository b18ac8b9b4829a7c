// Computes Pillow's resampling weights with the same operations in the same order, in binary64.
// python-pillow@4e5f09f src/libImaging/Resample.c: precompute_coeffs, normalize_coeffs_8bpc.
// Compiled without floating-point contraction.
#include "image/resize_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "core/error.hpp"
#include "core/thread_slot.hpp"

namespace fovea::image {
namespace {

double bilinear(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) {
    return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  }
  if (x < 2.0) {
    return (((x - 5) * x + 8) * x - 4) * kA;
  }
  return 0.0;
}

std::int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<std::int32_t>(weight < 0 ? -0.5 + scaled : 0.5 + scaled);
}

std::int32_t pair(std::int32_t earlier, std::int32_t later) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(later) << 16) |
                                   (static_cast<std::uint32_t>(earlier) & 0xffffU));
}

double filter_scale(int in, int out) {
  return static_cast<double>(static_cast<float>(in)) / out;
}

double filter_support(double scale, Resample filter) {
  return (filter == Resample::kBicubic ? 2.0 : 1.0) * std::max(scale, 1.0);
}

AxisWeights compute(int in, int out, Resample filter, bool reversed, StopFlag stop) {
  double (*const kernel)(double) = filter == Resample::kBicubic ? bicubic : bilinear;
  const double scale = filter_scale(in, out);
  const double support = filter_support(scale, filter);
  const double inverse = 1.0 / std::max(scale, 1.0);

  AxisWeights axis;
  axis.in = in;
  axis.out = out;
  axis.first.resize(static_cast<std::size_t>(out));
  axis.count.resize(static_cast<std::size_t>(out));
  axis.max_groups = max_tap_groups(in, out, filter);
  axis.words.resize(static_cast<std::size_t>(out) * static_cast<std::size_t>(axis.max_groups) *
                    kWordsPerGroup);
  std::vector<std::int32_t> fixed(static_cast<std::size_t>(axis.max_groups) * kTapsPerGroup);
  std::vector<double> weights(fixed.size());

  for (int index = 0; index < out; ++index) {
    stop.poll();
    const double center = (index + 0.5) * scale;
    const double left = center - support + 0.5;
    const double right = center + support + 0.5;
    const int first = std::max(0, static_cast<int>(left));
    const int last = std::min(in, static_cast<int>(right));
    const int count = last - first;
    double sum = 0.0;
    for (int tap = 0; tap < count; ++tap) {
      const double weight = kernel((tap + first - center + 0.5) * inverse);
      weights[static_cast<std::size_t>(tap)] = weight;
      sum += weight;
    }
    std::fill(fixed.begin(), fixed.end(), 0);
    for (int tap = 0; tap < count; ++tap) {
      double weight = weights[static_cast<std::size_t>(tap)];
      if (sum != 0.0) {
        weight /= sum;
      }
      fixed[static_cast<std::size_t>(reversed ? count - 1 - tap : tap)] = fixed_point(weight);
    }
    axis.first[static_cast<std::size_t>(index)] = reversed ? in - last : first;
    axis.count[static_cast<std::size_t>(index)] = count;
    std::int32_t* words = axis.words.data() + static_cast<std::size_t>(index) *
                                                  static_cast<std::size_t>(axis.max_groups) *
                                                  kWordsPerGroup;
    constexpr std::int32_t kLowMask = (1 << kSplitBits) - 1;
    for (std::size_t tap = 0; tap < fixed.size(); tap += kTapsPerGroup) {
      for (std::size_t half = 0; half < 2; ++half) {
        const std::int32_t earlier = fixed[tap + 2 * half];
        const std::int32_t later = fixed[tap + 2 * half + 1];
        words[half] = pair(earlier & kLowMask, later & kLowMask);
        words[half + 2] = pair(earlier >> kSplitBits, later >> kSplitBits);
      }
      words += kWordsPerGroup;
    }
  }
  return axis;
}

/// The weights last used by a thread. Photos of one camera have one size, so a few are enough.
class Cache {
 public:
  std::shared_ptr<const AxisWeights> get(int in, int out, Resample filter, bool reversed,
                                         StopFlag stop) {
    const Key key{in, out, filter, reversed};
    for (const Entry& entry : entries_) {
      if (entry.weights && entry.key == key) {
        return entry.weights;
      }
    }
    auto weights = std::make_shared<const AxisWeights>(compute(in, out, filter, reversed, stop));
    if (weights->words.size() * sizeof(std::int32_t) <= kMaxCachedBytes) {
      entries_.at(next_) = {key, weights};
      next_ = (next_ + 1) % entries_.size();
    }
    return weights;
  }

 private:
  static constexpr std::size_t kMaxCachedBytes = std::size_t{1} << 20;
  struct Key {
    int in = 0;
    int out = 0;
    Resample filter = Resample::kBilinear;
    bool reversed = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const AxisWeights> weights;
  };
  std::array<Entry, 8> entries_;
  std::size_t next_ = 0;
};

}  // namespace

int max_tap_groups(int in, int out, Resample filter) {
  const double support = filter_support(filter_scale(in, out), filter);
  const int taps = std::min(in, static_cast<int>(std::ceil(support)) * 2 + 1);
  return (taps + kTapsPerGroup - 1) / kTapsPerGroup;
}

std::shared_ptr<const AxisWeights> axis_weights(int in, int out, Resample filter, bool reversed,
                                                StopFlag stop) {
  if (in < 1 || out < 1 || in > kMaxSide || out > kMaxSide) {
    fail("cannot resize {} samples to {}: sides must be from 1 to {}", in, out, kMaxSide);
  }
  static ThreadSlot<Cache> caches;
  return caches.get().get(in, out, filter, reversed, stop);
}

}  // namespace fovea::image
