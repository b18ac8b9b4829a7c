// Rounding a weight matrix to 8 bits so that the layer's output changes least on real inputs.
//
// Rounded one column at a time, each takes up what the ones before it did to the output, weighted
// by how the inputs go together (Frantar et al., "GPTQ", arXiv:2210.17323, in the form that Chee
// et al., "QuIP", arXiv:2307.13304, show to be the same: with the factors U D U^T of the inputs'
// second moments, column k is rounded from w_k + (w - rounded)_{<k} u_k).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "fovea/encoder.hpp"

namespace fovea::quantize {

/// What was seen of a layer's inputs.
struct InputStatistics {
  std::size_t width = 0;
  std::size_t rows = 0;
  AlignedBuffer<float> gram;  // [width, width], lower triangle: the sum over rows of x^T x
  std::vector<double> sum;    // [width]
  float peak = 0;             // largest magnitude
};

/// weight[o, i] is about rounded[o, i] * scale[o]; rounded is int8, or the bits of e4m3.
struct RoundedLayer {
  std::vector<std::uint8_t> rounded;  // [out, in]
  std::vector<float> scale;           // [out]
  std::vector<float> bias;            // [out], with the mean of what rounding adds taken back
};

/// weight [out, width], bias [out]. `precision`: kInt8 or kFp8.
[[nodiscard]] RoundedLayer round_layer(std::span<const float> weight, std::span<const float> bias,
                                       const InputStatistics& inputs, Precision precision);

}  // namespace fovea::quantize
