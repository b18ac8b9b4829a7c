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
  bool by_image = false;  // false: all rows count as tokens of one image
};

struct GemmDesignTraits {
  GemmDesign design{};
  std::string_view name{};
  int cluster = 1;                                 // CTAs
  int (*rows)(const GemmPlan& plan) = nullptr;     // of a CTA's tile
  int (*threads)(const GemmPlan& plan) = nullptr;  // of a CTA
  std::size_t (*shared_bytes)(const GemmPlan& plan) = nullptr;
  int (*ctas_per_sm)(const GemmPlan& plan, const DeviceInfo& device) = nullptr;
  /// Whether a kernel can be compiled with this tuning; repeats the design's static_asserts.
  Support (*can_be_made)(const GemmPlan& plan) = nullptr;
  /// Whether the kernel supports the sizes of a problem whose types and epilogue it computes.
  Support (*fits)(const GemmProblem& problem, const GemmPlan& plan) = nullptr;
  /// Whether to consider the plan: of kernels that differ only in a property that the problem
  /// determines, such as the width of stores, only the matching kernel is a candidate.
  bool (*is_candidate)(const GemmProblem& problem, const GemmPlan& plan) = nullptr;
  /// The expected time, in SM clocks.
  double (*expected_clocks)(const GemmProblem& problem, const GemmPlan& plan,
                            const DeviceInfo& device) = nullptr;
  TileBox (*box)(const GemmProblem& problem, const GemmPlan& plan) = nullptr;
  /// Sets the tensor maps of B, of outputs or residuals that pass through shared memory, and of
  /// block scales, if any; params.epilogue is already set.
  void (*encode)(Device& device, const GemmProblem& problem, const GemmOperands& operands,
                 const GemmPlan& plan, gemm::BlockScaledParams& params) = nullptr;
  std::string (*describe)(const GemmPlan& plan) = nullptr;
};

/// Return the designs for Hopper, and for Blackwell's data-centre GPUs.
[[nodiscard]] std::span<const GemmDesignTraits> sm90_designs();
[[nodiscard]] std::span<const GemmDesignTraits> sm100_designs();

[[nodiscard]] const GemmDesignTraits& design_traits(GemmDesign design);

[[nodiscard]] std::int64_t k_bytes(const GemmProblem& problem);
/// Returns the number of blocks of gemm::kBlockBytes in K.
[[nodiscard]] std::int64_t k_blocks(const GemmProblem& problem);
/// Whether a panel of the plan holds the problem's K.
[[nodiscard]] Support fits_panel(const GemmProblem& problem, const GemmPlan& plan);
/// Returns the number of CTA tiles, rounded up to whole clusters.
[[nodiscard]] std::int64_t tile_count(const GemmProblem& problem, const GemmPlan& plan);

}  // namespace fovea::gpu
