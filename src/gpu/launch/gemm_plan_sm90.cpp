// GEMM on Hopper: the abilities of its three designs, and their expected clocks.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "gpu/launch/gemm_plan.hpp"

namespace fovea::gpu {
namespace {

constexpr int kWarpgroupThreads = 128;
// Tiles of the stationary design with a position table: a row's position stays in registers.
constexpr int kPositionTokens = 4;
constexpr int kPositionImages = gemm::kGroupRows / kPositionTokens;

int group_rows(const GemmPlan& /*plan*/) {
  return gemm::kGroupRows;
}
int consumer_rows(const GemmPlan& plan) {
  return plan.consumers * gemm::kGroupRows;
}
int ping_pong_rows(const GemmPlan& /*plan*/) {
  return gemm::kPingPongRows;
}
int sm90_threads(const GemmPlan& plan) {
  return (plan.consumers + 1) * kWarpgroupThreads;  // consumers and one producer
}

std::size_t panel_bytes(const GemmPlan& plan) {
  return gemm::b_stationary_shared_bytes(plan.columns, plan.k_blocks, plan.stages,
                                         2 * plan.consumers);
}
std::size_t cooperative_bytes(const GemmPlan& plan) {
  return gemm::cooperative_shared_bytes(plan.rows(), plan.columns, plan.stages, 2 * plan.consumers);
}
std::size_t ping_pong_bytes(const GemmPlan& plan) {
  return gemm::ping_pong_shared_bytes(plan.columns, plan.stages, plan.staging);
}

int ctas_on_sm90(const GemmPlan& plan, const DeviceInfo& device) {
  return plan.consumers == 1 && 2 * plan.shared_bytes() <= device.shared_bytes_per_block ? 2 : 1;
}

/// Returns the number of columns that a lane stores at once: 16 bytes if the widths of the problem
/// and the tile are multiples of such a group, otherwise fewer.
int preferred_vector(const GemmProblem& problem, const GemmPlan& plan) {
  for (const int vector : {16, 8}) {
    const int group = epilogue::kQuad * vector;
    if (static_cast<std::size_t>(vector) * size_of(problem.output) <= 16 &&
        problem.n % group == 0 && plan.columns % group == 0) {
      return vector;
    }
  }
  return 4;
}
bool has_preferred_vector(const GemmProblem& problem, const GemmPlan& plan) {
  return plan.vector == preferred_vector(problem, plan);
}

/// Returns the expected time of a plan in SM clocks, by a model fitted to the measurements in
/// docs/experiments.md. The tensor cores take 2 clocks for 64 rows, one column and a block of K.
double expected_sm90_clocks(const GemmProblem& problem, const GemmPlan& plan,
                            const DeviceInfo& device) {
  constexpr double kFill = 48;  // bytes per clock from L2 to each SM when all SMs read
  const double tensor = 2.0 * plan.rows() / gemm::kGroupRows * plan.columns;
  const auto blocks = static_cast<double>(k_blocks(problem));
  const double waves = static_cast<double>(tile_count(problem, plan)) / device.sm_count;
  if (plan.design == GemmDesign::kBStationary) {
    constexpr double kLatency = 2500;  // clocks of the first fill and the last store
    const double panel = blocks * plan.columns * gemm::kBlockBytes / kFill;
    const double stalls = plan.columns == 192 ? 1.2 : 1.4;
    return panel + kLatency + std::max(waves, 1.0) * stalls * tensor * blocks;
  }
  if (plan.design == GemmDesign::kPingPong) {
    constexpr double kStalls = 1.31;
    constexpr double kEpilogue = 10000;  // clocks; overlaps the other warpgroup's products
    const double products = blocks * kStalls * tensor;
    return std::ceil(waves) * std::max(products, (products + kEpilogue) / 2) + kEpilogue;
  }
  // The tensor cores idle a fifth of the time when both operands pass through shared memory.
  constexpr double kStalls = 1.27;
  // Epilogues of wide tiles wait for their reads: a tile (128, 256) takes 9,400 clocks with a
  // residual and 5,900 with a position table, but (128, 128) only 2,500.
  const double queue = problem.epilogue == GemmEpilogue::kResidual ? plan.columns / 64.0
                       : problem.epilogue == GemmEpilogue::kPosition
                           ? std::max(plan.columns / 112.0, 1.0)
                           : 1.0;
  const double epilogue = 1200.0 + 8.0 * queue * plan.columns;
  const double fill = (plan.rows() + plan.columns) * gemm::kBlockBytes / kFill;
  const double products = blocks * std::max(kStalls * tensor, fill);
  // Two CTAs on an SM share the L2 bandwidth, and the epilogue of one overlaps the other's
  // products.
  const bool two = ctas_on_sm90(plan, device) == 2;
  return std::ceil(waves) * products + epilogue * (two ? 0.5 : std::ceil(waves));
}

Support can_be_made_for_sm90(const GemmPlan& plan) {
  const int group = epilogue::kQuad * plan.vector;
  const int share = plan.columns / plan.cluster();  // columns of B's tile that a CTA loads
  if (plan.columns > 256 || share % group != 0) {
    return {fmt::format("tiles have {} columns; expected a multiple of {} up to 256", plan.columns,
                        group * plan.cluster())};
  }
  const int max_vector = plan.output == epilogue::Output::kBF16 ? 8 : 16;
  if (plan.vector > max_vector) {
    return {
        fmt::format("a lane stores at most {} columns at once, not {}", max_vector, plan.vector)};
  }
  if (plan.design == GemmDesign::kPingPong &&
      (plan.consumers != 2 || plan.output != epilogue::Output::kBF16 ||
       plan.epilogue == epilogue::Kind::kPosition)) {
    return {"ping-pong needs two warpgroups, bf16 outputs and no position table"};
  }
  if (plan.design == GemmDesign::kBStationary && plan.input == tile::Input::kBF16) {
    return {"stationary panels need operands of one-byte types"};
  }
  return {};
}

Support divides_columns(const GemmProblem& problem, const GemmPlan& plan) {
  return problem.n % (epilogue::kQuad * plan.vector) == 0
             ? Support{}
             : Support{fmt::format(
                   "lanes store {} columns at once, so that N = {} must be a multiple of {}",
                   plan.vector, problem.n, epilogue::kQuad * plan.vector)};
}

/// Whether the problem fits a stationary panel of B.
Support fits_b_stationary(const GemmProblem& problem, const GemmPlan& plan) {
  if (Support support = divides_columns(problem, plan); !support) {
    return support;
  }
  if (problem.n % plan.columns != 0) {
    return {
        fmt::format("N = {} is not a multiple of the panel's {} columns", problem.n, plan.columns)};
  }
  if (Support support = fits_panel(problem, plan); !support) {
    return support;
  }
  if (problem.epilogue == GemmEpilogue::kPosition &&
      (problem.row_scale || problem.m % problem.tokens != 0 ||
       problem.m / problem.tokens < kPositionImages)) {
    return {fmt::format("a position table needs at least {} whole images and no row scales",
                        kPositionImages)};
  }
  return {};
}

TileBox row_box(const GemmProblem& /*problem*/, const GemmPlan& plan) {
  return {.tokens = plan.rows()};
}
TileBox panel_box(const GemmProblem& problem, const GemmPlan& plan) {
  return problem.epilogue == GemmEpilogue::kPosition
             ? TileBox{.tokens = kPositionTokens, .images = kPositionImages, .by_image = true}
             : row_box(problem, plan);
}

void encode_sm90_maps(Device& device, const GemmProblem& problem, const GemmOperands& operands,
                      const GemmPlan& plan, gemm::BlockScaledParams& params) {
  const auto row_bytes = static_cast<std::uint64_t>(k_bytes(problem));
  // The map reads rows of B in the order that kernels/epilogue/fragment.cuh defines.
  const auto vector = static_cast<std::uint64_t>(plan.vector);
  const std::uint64_t group = epilogue::kQuad * vector;
  TensorMapDesc b{.type = TensorMapType::kU8,
                  .address = operands.b,
                  .rank = 5,
                  .dims = {row_bytes, 2, epilogue::kQuad, vector / 2,
                           static_cast<std::uint64_t>(problem.n) / group},
                  .strides = {row_bytes, vector * row_bytes, 2 * row_bytes, group * row_bytes},
                  .box = {gemm::kBlockBytes, 2, epilogue::kQuad, plan.vector / 2U,
                          static_cast<std::uint32_t>(
                              static_cast<std::uint64_t>(plan.columns / plan.cluster()) / group)},
                  .swizzle = Swizzle::k128};
  params.b = device.encode(b);
  if (plan.staging) {
    constexpr std::uint64_t kGroup = epilogue::kQuad * 8;
    const auto columns = static_cast<std::uint64_t>(problem.n);
    params.staged =
        device.encode({.type = TensorMapType::kBF16,
                       .address = operands.output,
                       .rank = 3,
                       .dims = {kGroup, static_cast<std::uint64_t>(problem.m), columns / kGroup},
                       .strides = {columns * 2, kGroup * 2},
                       .box = {kGroup, static_cast<std::uint32_t>(plan.rows()),
                               static_cast<std::uint32_t>(plan.columns / kGroup)},
                       .swizzle = Swizzle::kNone});
  }
}

std::string describe_sm90_plan(const GemmPlan& plan) {
  return fmt::format("{}x{}{}, {} consumers, {} stages, {} columns a store", plan.rows(),
                     plan.columns,
                     plan.k_blocks > 0 ? fmt::format(", {} K blocks", plan.k_blocks) : "",
                     plan.consumers, plan.stages, plan.vector);
}

/// The common properties of Hopper's designs.
constexpr GemmDesignTraits kSm90Traits{.threads = sm90_threads,
                                       .ctas_per_sm = ctas_on_sm90,
                                       .can_be_made = can_be_made_for_sm90,
                                       .fits = divides_columns,
                                       .is_candidate = has_preferred_vector,
                                       .expected_clocks = expected_sm90_clocks,
                                       .box = row_box,
                                       .encode = encode_sm90_maps,
                                       .describe = describe_sm90_plan};

constexpr std::array<GemmDesignTraits, 3> kSm90Designs = [] {
  GemmDesignTraits panels = kSm90Traits;
  panels.design = GemmDesign::kBStationary;
  panels.name = "b_stationary";
  panels.rows = group_rows;
  panels.shared_bytes = panel_bytes;
  panels.fits = fits_b_stationary;
  panels.box = panel_box;
  GemmDesignTraits cooperative = kSm90Traits;
  cooperative.design = GemmDesign::kCooperative;
  cooperative.name = "cooperative";
  cooperative.rows = consumer_rows;
  cooperative.shared_bytes = cooperative_bytes;
  GemmDesignTraits ping_pong = kSm90Traits;
  ping_pong.design = GemmDesign::kPingPong;
  ping_pong.name = "ping_pong";
  ping_pong.cluster = gemm::kPingPongCluster;
  ping_pong.rows = ping_pong_rows;
  ping_pong.shared_bytes = ping_pong_bytes;
  return std::array{panels, cooperative, ping_pong};
}();

}  // namespace

std::span<const GemmDesignTraits> sm90_designs() {
  return kSm90Designs;
}

}  // namespace fovea::gpu
