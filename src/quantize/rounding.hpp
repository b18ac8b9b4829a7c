// Rounds a weight matrix to 8 bits so that the output of the layer changes least on real inputs.
//
// Columns are rounded one at a time. Each compensates for the errors of the columns before it,
// weighted by the covariance of the inputs. This is GPTQ (Frantar et al., arXiv:2210.17323) in the
// equivalent form of QuIP (Chee et al., arXiv:2307.13304): with the factorisation U D U^T of the
// covariance, column k is rounded from w_k + (w - rounded)_{<k} u_k.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/dtype.hpp"

namespace fovea::quantize {

/// Statistics of the inputs of a layer.
struct InputStatistics {
  std::size_t width = 0;
  std::size_t rows = 0;
  AlignedBuffer<float> gram;  // [width, width]; the lower triangle is the sum over rows of x^T x
  std::vector<double> sum;    // [width]; the sum over rows
  std::vector<float> peaks;   // [width]; the largest magnitudes
};

/// A layer in 8 bits: weight[o, i] is about rounded[o, i] * scale[o].
struct RoundedLayer {
  std::vector<std::uint8_t> rounded;  // [out, in]; int8 values, or the bits of e4m3
  std::vector<float> scale;           // [out]
  std::vector<float> bias;            // [out]; corrected for the mean error of the rounding
};

/// Rounds a layer. `weight`: [out, width]. `bias`: [out]. `type`: kI8 or kE4M3.
[[nodiscard]] RoundedLayer round_layer(std::span<const float> weight, std::span<const float> bias,
                                       const InputStatistics& inputs, DType type);

/// Returns divisors [width] for the columns of the inputs; the caller multiplies the columns of
/// `weight`, [out, width], by them. They balance the peaks of each column in the inputs and in the
/// weights, so that no single column determines the scale of a row of inputs or of weights
/// (SmoothQuant, Xiao et al., arXiv:2211.10438, with alpha = 0.5). Their geometric mean is 1.
[[nodiscard]] std::vector<float> balancing_divisors(std::span<const float> weight,
                                                    const InputStatistics& inputs);

/// Returns the statistics of the inputs after division by `divisors` [width].
[[nodiscard]] InputStatistics divide_inputs(const InputStatistics& inputs,
                                            std::span<const float> divisors);

}  // namespace fovea::quantize
