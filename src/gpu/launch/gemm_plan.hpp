// The properties of each GEMM design for the planner: one table per architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {

/// The rows of a CTA's tile: some tokens of some images.
struct TileBox {
  std::int32_t tokens = 0;
  std::int32_t images = 1;
  bool by_image = false;  // else all rows count as tokens of one image
};

struct GemmDesignTraits {
  GemmDesign design{};
  std::string_view name{};
  int cluster = 1;                                 // CTAs
  int (*rows)(const GemmPlan& plan) = nullptr;     // of a CTA's tile
  int (*threads)(const GemmPlan& plan) = nullptr;  // of a CTA
  std::size_t (*shared_bytes)(const GemmPlan& plan) = nullptr;
  int (*ctas_per_sm)(const GemmPlan& plan, const DeviceInfo& device) = nullptr;
  /// Whether a kernel can be made with this tuning, as the static_asserts of the design say.
  Support (*can_be_made)(const GemmPlan& plan) = nullptr;
  /// Whether such a kernel runs the problem, which it computes.
  Support (*fits)(const GemmProblem& problem, const GemmPlan& plan) = nullptr;
  /// Whether the plan is to be considered at all: of kernels that differ in what a problem needs,
  /// one that does no more than that.
  bool (*is_meant)(const GemmProblem& problem, const GemmPlan& plan) = nullptr;
  /// What it should take, in clocks of an SM.
  double (*expected_clocks)(const GemmProblem& problem, const GemmPlan& plan,
                            const DeviceInfo& device) = nullptr;
  TileBox (*box)(const GemmProblem& problem, const GemmPlan& plan) = nullptr;
  /// B's map, that of what passes through shared memory to the output, and those of the blocks'
  /// scales, where there are some; params.epilogue is filled in.
  void (*encode)(Device& device, const GemmProblem& problem, const GemmOperands& operands,
                 const GemmPlan& plan, gemm::BlockScaledParams& params) = nullptr;
  std::string (*describe)(const GemmPlan& plan) = nullptr;
};

/// Designs of Hopper, and of Blackwell's data-centre GPUs.
[[nodiscard]] std::span<const GemmDesignTraits> designs_of_sm90();
[[nodiscard]] std::span<const GemmDesignTraits> designs_of_sm100();

[[nodiscard]] const GemmDesignTraits& traits_of(GemmDesign design);

[[nodiscard]] std::int64_t k_bytes(const GemmProblem& problem);
/// Returns K in blocks of gemm::kBlockBytes.
[[nodiscard]] std::int64_t k_blocks(const GemmProblem& problem);
/// Whether a panel of the plan holds the problem's K.
[[nodiscard]] Support fits_panel(const GemmProblem& problem, const GemmPlan& plan);
/// Tiles of CTAs, of whole clusters.
[[nodiscard]] std::int64_t tile_count(const GemmProblem& problem, const GemmPlan& plan);

}  // namespace fovea::gpu
