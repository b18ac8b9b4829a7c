// Constants of a GEMM kernel for pairs of CTAs (sm100_pair.cuh), derived from its tuning
// parameters.
#pragma once

#include <cstddef>

#include "kernels/gemm/gemm_params.hpp"

namespace fovea::gemm {

template <Tuning kTuning>
struct PairCfg {
  static constexpr tile::Input kInput = kTuning.input;
  static constexpr epilogue::Kind kEpilogue = kTuning.epilogue;
  static constexpr epilogue::Output kOutput = kTuning.output;
  static constexpr bool kNormed = kTuning.normed;
  static constexpr int kColumns = kTuning.columns;
  static constexpr int kStages = kTuning.stages;
  static constexpr int kRaster = kTuning.raster;
  static constexpr bool kPanel = kTuning.k_blocks > 0;  // a panel of A stays in shared memory
  static constexpr bool kBlockScaled = kInput == tile::Input::kMXFP8;
  static constexpr bool kScaled = kInput != tile::Input::kBF16 && !kBlockScaled;
  static_assert(kColumns % 64 == 0 && kColumns <= 256, "whole loads of tensor memory");
  static_assert(!kPanel || kRaster == 0, "tiles of a panel follow each other");

  // Warps
  static constexpr int kEpilogueWarps = 8;
  static constexpr int kProducerWarp = kEpilogueWarps;
  static constexpr int kProductWarp = kEpilogueWarps + 1;
  static constexpr int kPanelWarp = kEpilogueWarps + 2;  // only with a panel
  static constexpr int kThreads = pair_threads(kTuning);
  static_assert(kThreads == 32 * ((kPanel ? kPanelWarp : kProductWarp) + 1));

  // Shared memory: blocks of A along K, in the panel or in the stages
  static constexpr int kABlocks = pair_a_blocks(kTuning);
  static constexpr int kABytes = pair_a_bytes(kInput);  // bytes of such a block
  static constexpr int kStageBytes = pair_b_bytes(kColumns, kInput) + (kPanel ? 0 : kABytes);
  static constexpr int kBAtoms = pair_b_atoms(kColumns);  // atoms with a stage's scales of B
  static constexpr int kShare = kColumns / 2;             // columns of an epilogue warp
  static constexpr int kSpan = pair_span(kColumns, kOutput);
  static constexpr std::size_t kSharedBytes = pair_shared_bytes(kTuning);

  // Tensor memory: accumulators, then scales of A's blocks, then scales of the stages of B
  static constexpr int kAccumulators = 2;
  static constexpr int kFirstAScale = kAccumulators * kColumns;
  static constexpr int kFirstBScale = kFirstAScale + kABlocks * kAtomColumns;
  static constexpr int kUsedColumns = pair_tensor_columns(kTuning);
  static constexpr int kTensorColumns = kUsedColumns <= 128 ? 128 : kUsedColumns <= 256 ? 256 : 512;
  static_assert(kUsedColumns <= kTensorColumns, "two tiles and scales fit tensor memory");
};

}  // namespace fovea::gemm
