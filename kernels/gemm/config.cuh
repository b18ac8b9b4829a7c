// Constants of a GEMM kernel, derived from its tuning parameters.
#pragma once

#include "kernels/epilogue/fragment.cuh"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/tile/product.cuh"

namespace fovea::gemm {

template <Tuning kTuning>
struct Cfg {
  static constexpr tile::Input kInput = kTuning.input;
  static constexpr epilogue::Kind kEpilogue = kTuning.epilogue;
  static constexpr epilogue::Output kOutput = kTuning.output;
  static constexpr bool kNormed = kTuning.normed;
  static constexpr int kConsumers = kTuning.consumers;
  static constexpr int kColumns = kTuning.columns;
  static constexpr int kStages = kTuning.stages;
  static constexpr int kVector = kTuning.vector;
  static constexpr int kKBlocks = kTuning.k_blocks;
  static constexpr int kAhead = kTuning.ahead;
  static constexpr int kRaster = kTuning.raster;
  static constexpr bool kScaled = kInput != tile::Input::kBF16;
  static_assert(kColumns % (4 * kVector) == 0, "whole groups of columns");
};

}  // namespace fovea::gemm
