// Weights of one axis of a resize, as Pillow computes them, in the layout of the SIMD passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/stop.hpp"
#include "fovea/preprocessing.hpp"

namespace fovea::image {

/// Fixed-point fraction bits of a weight.
/// python-pillow@4e5f09f src/libImaging/Resample.c: 32 bits less 8 of the result and 2 of overflow.
inline constexpr int kWeightBits = 32 - 8 - 2;

/// A weight w is stored as two int16, w = high * 2^kSplitBits + low with 0 <= low < 2^kSplitBits:
/// |w| < 2^23, so both fit, and the two 16-bit dot products recombine to exactly Pillow's sum.
inline constexpr int kSplitBits = 11;

/// Taps are stored in groups of this many, the last group filled with zero weights.
inline constexpr int kTapsPerGroup = 4;

/// int32 words per group: taps (0,1) low, taps (2,3) low, taps (0,1) high, taps (2,3) high, each
/// word holding the earlier tap in its lower half.
inline constexpr int kWordsPerGroup = 4;

/// Output i is the sum over t in [0, count[i]) of source[first[i] + t] * weight(i, t).
struct AxisWeights {
  int in = 0;
  int out = 0;
  int max_groups = 0;
  std::vector<int> first;
  std::vector<int> count;
  std::vector<std::int32_t> words;  // [out, max_groups, kWordsPerGroup]

  [[nodiscard]] const std::int32_t* row(int index) const {
    return words.data() +
           static_cast<std::size_t>(index) * static_cast<std::size_t>(max_groups) * kWordsPerGroup;
  }
  // Leaves out a check of the index, which would slow down the kernels.
  [[nodiscard]] int start(int index) const { return first.data()[index]; }
  [[nodiscard]] int groups(int index) const {
    return (count.data()[index] + kTapsPerGroup - 1) / kTapsPerGroup;
  }
};

/// The maximum side that can be resized: larger sizes are not exact in binary32, in which Pillow
/// passes them.
inline constexpr int kMaxSide = 1 << 24;

/// Weights from `in` to `out` samples. `reversed` gives those of the mirrored source: the
/// outputs are in order, the source is read from its end. Recently used weights are kept per
/// thread. Throws Interrupted when `stop` is set.
[[nodiscard]] std::shared_ptr<const AxisWeights> axis_weights(int in, int out, Resample filter,
                                                              bool reversed, StopFlag stop = {});

/// Returns the maximum number of groups of taps per output for a resize from `in` to `out` samples.
[[nodiscard]] int max_tap_groups(int in, int out, Resample filter);

}  // namespace fovea::image
