// Rounding a weight matrix to 8 bits so that the layer's output changes least on real inputs.
//
// Columns are rounded one at a time, and each compensates for the errors of those before it,
// weighted by how the inputs vary together (Frantar et al., "GPTQ", arXiv:2210.17323, in the form
// that Chee et al., "QuIP", arXiv:2307.13304, show to be the same: with the factors U D U^T of the
// inputs' second moments, column k is rounded from w_k + (w - rounded)_{<k} u_k).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/dtype.hpp"

namespace fovea::quantize {

/// Statistics of a layer's inputs.
struct InputStatistics {
  std::size_t width = 0;
  std::size_t rows = 0;
  AlignedBuffer<float> gram;  // [width, width], lower triangle: the sum over rows of x^T x
  std::vector<double> sum;    // [width]
  std::vector<float> peaks;   // [width], largest magnitudes
};

/// weight[o, i] is about rounded[o, i] * scale[o]; rounded is int8, or the bits of e4m3.
struct RoundedLayer {
  std::vector<std::uint8_t> rounded;  // [out, in]
  std::vector<float> scale;           // [out]
  std::vector<float> bias;            // [out], less the mean error of the rounding
};

/// weight [out, width], bias [out]. `numbers`: kI8 or kE4M3.
[[nodiscard]] RoundedLayer round_layer(std::span<const float> weight, std::span<const float> bias,
                                       const InputStatistics& inputs, DType numbers);

/// Returns divisors [width] for the inputs' columns; the weights' columns are to be multiplied by
/// them. They balance the peaks of a column among the inputs and among the weights, so that a
/// single column determines neither the scale of a row of inputs nor that of a row of weights (Xiao
/// et al., "SmoothQuant", arXiv:2211.10438, with alpha = 0.5). Their geometric mean is 1. weight:
/// [out, width].
[[nodiscard]] std::vector<float> balancing_divisors(std::span<const float> weight,
                                                    const InputStatistics& inputs);

/// Returns the statistics of the same inputs, divided by `divisors` [width].
[[nodiscard]] InputStatistics divided(const InputStatistics& inputs,
                                      std::span<const float> divisors);

}  // namespace fovea::quantize
