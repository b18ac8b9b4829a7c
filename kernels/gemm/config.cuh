// The levers of a GEMM kernel, as its fovea_kernel() line gives them.
#pragma once

#include "kernels/epilogue/fragment.cuh"
#include "kernels/tile/product.cuh"

namespace fovea::gemm {

struct Cfg {
  static constexpr tile::Input kInput = tile::Input::FOVEA_INPUT;
  static constexpr epilogue::Kind kEpilogue = epilogue::Kind::FOVEA_EPILOGUE;
  static constexpr epilogue::Output kOutput = epilogue::Output::FOVEA_OUTPUT;
  static constexpr int kColumns = FOVEA_COLUMNS;  // of a tile
  static constexpr int kVector = FOVEA_VECTOR;    // columns that a lane stores at once
  static constexpr int kStages = FOVEA_STAGES;
  static constexpr int kConsumers = FOVEA_CONSUMERS;  // warpgroups
#ifdef FOVEA_BLOCKS
  static constexpr int kBlocks = FOVEA_BLOCKS;  // of K that a resident panel holds at most
#endif
  // Groups of columns whose addends are on their way to registers while the products run.
  static constexpr int kAhead = kConsumers == 3 ? 2 : 4;
  static constexpr bool kScaled = kInput != tile::Input::kBF16;
  static constexpr bool kNormed = FOVEA_NORMED;  // A's rows are to be normalised
  static_assert(kColumns % (4 * kVector) == 0, "whole groups of columns");
};

}  // namespace fovea::gemm
