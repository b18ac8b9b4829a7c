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
// Tiles of stationary panels where a row's position stays in registers.
constexpr int kPositionTokens = 4;
constexpr int kPositionImages = gemm::kGroupRows / kPositionTokens;

int rows_of_group(const GemmPlan& /*plan*/) {
  return gemm::kGroupRows;
}
int rows_of_consumers(const GemmPlan& plan) {
  return plan.consumers * gemm::kGroupRows;
}
int rows_of_ping_pong(const GemmPlan& /*plan*/) {
  return gemm::kPingPongRows;
}
int threads_on_sm90(const GemmPlan& plan) {
  return (plan.consumers + 1) * kWarpgroupThreads;  // and the producer
}

std::size_t bytes_of_panels(const GemmPlan& plan) {
  return gemm::b_stationary_shared_bytes(plan.columns, plan.k_blocks, plan.stages,
                                         2 * plan.consumers);
}
std::size_t bytes_of_cooperative(const GemmPlan& plan) {
  return gemm::cooperative_shared_bytes(plan.rows(), plan.columns, plan.stages, 2 * plan.consumers);
}
std::size_t bytes_of_ping_pong(const GemmPlan& plan) {
  return gemm::ping_pong_shared_bytes(plan.columns, plan.stages, plan.staging);
}

int ctas_on_sm90(const GemmPlan& plan, const DeviceInfo& device) {
  return plan.consumers == 1 && 2 * plan.shared_bytes() <= device.shared_bytes_per_block ? 2 : 1;
}

/// Columns that a lane stores at once: 16 bytes where the problem and the tile have whole groups.
int vector_of(const GemmProblem& problem, const GemmPlan& plan) {
  for (const int vector : {16, 8}) {
    const int group = epilogue::kQuad * vector;
    if (static_cast<std::size_t>(vector) * size_of(problem.output) <= 16 &&
        problem.n % group == 0 && plan.columns % group == 0) {
      return vector;
    }
  }
  return 4;
}
bool has_its_vector(const GemmProblem& problem, const GemmPlan& plan) {
  return plan.vector == vector_of(problem, plan);
}

/// Returns the expected time of a plan in SM clocks, by a model fitted to the measurements in
/// docs/experiments.md. The tensor cores take 2 clocks for 64 rows, one column and a block of K.
double clocks_on_sm90(const GemmProblem& problem, const GemmPlan& plan, const DeviceInfo& device) {
  constexpr double kFill = 48;  // bytes a clock from L2 to each SM, all asking
  const double tensor = 2.0 * plan.rows() / gemm::kGroupRows * plan.columns;
  const auto blocks = static_cast<double>(k_blocks(problem));
  const double waves = static_cast<double>(tile_count(problem, plan)) / device.sm_count;
  if (plan.design == GemmDesign::kBStationary) {
    constexpr double kLatency = 2500;  // of the first fill and the last store
    const double panel = blocks * plan.columns * gemm::kBlockBytes / kFill;
    const double stalls = plan.columns == 192 ? 1.2 : 1.4;
    return panel + kLatency + std::max(waves, 1.0) * stalls * tensor * blocks;
  }
  if (plan.design == GemmDesign::kPingPong) {
    constexpr double kStalls = 1.31;
    constexpr double kEpilogue = 10000;  // under the other warpgroup's products
    const double products = blocks * kStalls * tensor;
    return std::ceil(waves) * std::max(products, (products + kEpilogue) / 2) + kEpilogue;
  }
  // The tensor cores wait a fifth of the time when both operands pass through shared memory.
  constexpr double kStalls = 1.27;
  // What a wide tile still has to read queues up: of the residual (128, 256) takes 9,400 clocks, of
  // the position table 5,900, and (128, 128) 2,500.
  const double queue = problem.epilogue == GemmEpilogue::kResidual ? plan.columns / 64.0
                       : problem.epilogue == GemmEpilogue::kPosition
                           ? std::max(plan.columns / 112.0, 1.0)
                           : 1.0;
  const double epilogue = 1200.0 + 8.0 * queue * plan.columns;
  const double fill = (plan.rows() + plan.columns) * gemm::kBlockBytes / kFill;
  const double products = blocks * std::max(kStalls * tensor, fill);
  // Two blocks side by side share what L2 gives, and one's epilogue runs beside the other's
  // products.
  const bool two = ctas_on_sm90(plan, device) == 2;
  return std::ceil(waves) * products + epilogue * (two ? 0.5 : std::ceil(waves));
}

Support can_be_made_for_sm90(const GemmPlan& plan) {
  const int group = epilogue::kQuad * plan.vector;
  const int share = plan.columns / plan.cluster();  // of a CTA, of a tile of B
  if (plan.columns > 256 || share % group != 0) {
    return {fmt::format("tiles of {} columns do not split into groups of {}, 256 at most",
                        plan.columns, group * plan.cluster())};
  }
  const int max_vector = plan.output == epilogue::Output::kBF16 ? 8 : 16;
  if (plan.vector > max_vector) {
    return {
        fmt::format("a lane stores {} columns at once at most, not {}", max_vector, plan.vector)};
  }
  if (plan.design == GemmDesign::kPingPong &&
      (plan.consumers != 2 || plan.output != epilogue::Output::kBF16 ||
       plan.epilogue == epilogue::Kind::kPosition)) {
    return {"ping-pong needs two warpgroups, bf16 outputs and no position table"};
  }
  if (plan.design == GemmDesign::kBStationary && plan.input == tile::Input::kBF16) {
    return {"stationary panels are of one-byte types"};
  }
  return {};
}

Support divides_columns(const GemmProblem& problem, const GemmPlan& plan) {
  return problem.n % (epilogue::kQuad * plan.vector) == 0
             ? Support{}
             : Support{fmt::format("lanes that store {} columns at once do not divide N = {}",
                                   plan.vector, problem.n)};
}

/// What a stationary panel of B needs of a problem.
Support fits_b_stationary(const GemmProblem& problem, const GemmPlan& plan) {
  if (Support support = divides_columns(problem, plan); !support) {
    return support;
  }
  if (problem.n % plan.columns != 0) {
    return {fmt::format("panels of {} columns do not divide N = {}", plan.columns, problem.n)};
  }
  if (Support support = fits_panel(problem, plan); !support) {
    return support;
  }
  if (problem.epilogue == GemmEpilogue::kPosition &&
      (problem.row_scale || problem.m % problem.tokens != 0 ||
       problem.m / problem.tokens < kPositionImages)) {
    return {fmt::format("a position table needs {} whole images and no scales of rows",
                        kPositionImages)};
  }
  return {};
}

TileBox rows_alone(const GemmProblem& /*problem*/, const GemmPlan& plan) {
  return {.tokens = plan.rows()};
}
TileBox box_of_panels(const GemmProblem& problem, const GemmPlan& plan) {
  return problem.epilogue == GemmEpilogue::kPosition
             ? TileBox{.tokens = kPositionTokens, .images = kPositionImages, .by_image = true}
             : rows_alone(problem, plan);
}

void encode_on_sm90(Device& device, const GemmProblem& problem, const GemmOperands& operands,
                    const GemmPlan& plan, gemm::BlockScaledParams& params) {
  const auto row_bytes = static_cast<std::uint64_t>(k_bytes(problem));
  // Rows of B in the order of kernels/epilogue/fragment.cuh.
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

std::string describe_on_sm90(const GemmPlan& plan) {
  return fmt::format("{}x{}{}, {} consumers, {} stages, {} columns a store", plan.rows(),
                     plan.columns,
                     plan.k_blocks > 0 ? fmt::format(", {} K blocks", plan.k_blocks) : "",
                     plan.consumers, plan.stages, plan.vector);
}

/// The common properties of Hopper's designs.
constexpr GemmDesignTraits kOfSm90{.threads = threads_on_sm90,
                                   .ctas_per_sm = ctas_on_sm90,
                                   .can_be_made = can_be_made_for_sm90,
                                   .fits = divides_columns,
                                   .is_meant = has_its_vector,
                                   .expected_clocks = clocks_on_sm90,
                                   .box = rows_alone,
                                   .encode = encode_on_sm90,
                                   .describe = describe_on_sm90};

constexpr std::array<GemmDesignTraits, 3> kSm90Designs = [] {
  GemmDesignTraits panels = kOfSm90;
  panels.design = GemmDesign::kBStationary;
  panels.name = "b_stationary";
  panels.rows = rows_of_group;
  panels.shared_bytes = bytes_of_panels;
  panels.fits = fits_b_stationary;
  panels.box = box_of_panels;
  GemmDesignTraits cooperative = kOfSm90;
  cooperative.design = GemmDesign::kCooperative;
  cooperative.name = "cooperative";
  cooperative.rows = rows_of_consumers;
  cooperative.shared_bytes = bytes_of_cooperative;
  GemmDesignTraits ping_pong = kOfSm90;
  ping_pong.design = GemmDesign::kPingPong;
  ping_pong.name = "ping_pong";
  ping_pong.cluster = gemm::kPingPongCluster;
  ping_pong.rows = rows_of_ping_pong;
  ping_pong.shared_bytes = bytes_of_ping_pong;
  return std::array{panels, cooperative, ping_pong};
}();

}  // namespace

std::span<const GemmDesignTraits> designs_of_sm90() {
  return kSm90Designs;
}

}  // namespace fovea::gpu
