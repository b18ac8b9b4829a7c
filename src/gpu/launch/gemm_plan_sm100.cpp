// GEMM on Blackwell's data-centre GPUs: the abilities of the design with pairs of CTAs, and its
// expected clocks.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "gpu/launch/gemm_plan.hpp"
#include "ops/block_scales.hpp"

namespace fovea::gpu {
namespace {

int pair_rows(const GemmPlan& /*plan*/) {
  return gemm::kPairRows;
}
int pair_cta_threads(const GemmPlan& plan) {
  return gemm::pair_threads(plan);
}
std::size_t pair_bytes(const GemmPlan& plan) {
  return gemm::pair_shared_bytes(plan);
}
int one_cta(const GemmPlan& /*plan*/, const DeviceInfo& /*device*/) {
  return 1;
}

static_assert(gemm::kAtomBytes == ops::kAtomBytes && gemm::kAtomRows == ops::kAtomRows);

Support pair_can_be_made(const GemmPlan& plan) {
  if (plan.columns % 64 != 0 || plan.columns > 256 || plan.columns < 64) {
    return {fmt::format("tiles have 64, 128, 192 or 256 columns, not {}", plan.columns)};
  }
  constexpr int kMaxBlocks = 14;  // limited by shared memory
  if (plan.k_blocks < 0 || plan.k_blocks > kMaxBlocks) {
    return {
        fmt::format("a panel of A holds up to {} blocks of K, not {}", kMaxBlocks, plan.k_blocks)};
  }
  constexpr int kTensorColumns = 512;
  if (gemm::pair_tensor_columns(plan) > kTensorColumns) {
    return {
        fmt::format("the scales of {} blocks of A and {} stages of B, and two tiles of {} columns, "
                    "do not fit tensor memory",
                    gemm::pair_a_blocks(plan), plan.stages, plan.columns)};
  }
  if (plan.k_blocks > 0 && plan.raster != 0) {
    return {"a stationary panel of A needs tiles in row order"};
  }
  return {};
}

Support fits_pair(const GemmProblem& problem, const GemmPlan& plan) {
  return plan.k_blocks > 0 ? fits_panel(problem, plan) : Support{};
}
bool always(const GemmProblem& /*problem*/, const GemmPlan& /*plan*/) {
  return true;
}

/// Returns the expected time of a plan in SM clocks, from the GPU's published rates, which were not
/// measured: the tensor cores of an SM take 2 clocks for 128 rows, one column and a block of K.
double expected_pair_clocks(const GemmProblem& problem, const GemmPlan& plan,
                            const DeviceInfo& device) {
  constexpr double kFill = 64;  // bytes per clock from L2 to each SM
  // Fraction of the filling time that is always added, so that among plans limited by products the
  // one that fills less wins.
  constexpr double kShare = 0.05;
  constexpr double kLatency = 2500;     // clocks of the first fill and the last store, as on Hopper
  constexpr double kEpilogueRate = 10;  // clocks per column, with eight warps on four schedulers
  const int pairs = device.sm_count / plan.cluster();
  const double waves =
      std::ceil(static_cast<double>(tile_count(problem, plan)) / plan.cluster() / pairs);
  const auto column_tiles = static_cast<double>(divide_up(problem.n, plan.columns));
  const double panels = plan.k_blocks > 0 ? std::ceil(waves / column_tiles) : waves;
  const double fill =
      (plan.rows() * panels / waves + plan.columns / 2.0) * gemm::kBlockBytes / kFill;
  const double products =
      static_cast<double>(k_blocks(problem)) * (std::max(2.0 * plan.columns, fill) + kShare * fill);
  const double epilogue = kEpilogueRate * plan.columns;
  return waves * std::max(products, epilogue) + std::min(products, epilogue) + kLatency;
}

/// Tiles consist of a few tokens of many images if that needs little padding: the lanes of a warp
/// then share a few rows of the position table.
TileBox pair_box(const GemmProblem& problem, const GemmPlan& plan) {
  constexpr std::int64_t kTokens = 4;
  constexpr double kMaxPadding = 1.0625;
  const std::int64_t images = plan.rows() / kTokens;
  if (problem.epilogue == GemmEpilogue::kPosition && problem.m % problem.tokens == 0) {
    const std::int64_t padded = divide_up(problem.tokens, kTokens) * kTokens *
                                divide_up(problem.m / problem.tokens, images) * images;
    if (static_cast<double>(padded) <= kMaxPadding * static_cast<double>(problem.m)) {
      return {.tokens = kTokens, .images = static_cast<std::int32_t>(images), .by_image = true};
    }
  }
  return {.tokens = plan.rows()};
}

/// Returns the tensor map for the scales of a matrix (rows, k), in boxes of `atoms` atoms.
TensorMap encode_scales(Device& device, DevicePtr address, std::int64_t rows, std::int64_t k,
                        int atoms) {
  constexpr std::uint64_t kHalf = gemm::kAtomBytes / 2;  // a box dimension has at most 256 elements
  const auto along_k =
      static_cast<std::uint64_t>(divide_up(divide_up(k, ops::kScaleBlock), ops::kAtomBlocks));
  return device.encode(
      {.type = TensorMapType::kU8,
       .address = address,
       .rank = 3,
       .dims = {kHalf, 2 * along_k, static_cast<std::uint64_t>(divide_up(rows, gemm::kAtomRows))},
       .strides = {kHalf, gemm::kAtomBytes * along_k},
       .box = {kHalf, 2, static_cast<std::uint32_t>(atoms)},
       .swizzle = Swizzle::kNone});
}

void encode_pair(Device& device, const GemmProblem& problem, const GemmOperands& operands,
                 const GemmPlan& plan, gemm::BlockScaledParams& params) {
  const auto row_bytes = static_cast<std::uint64_t>(k_bytes(problem));
  const auto columns = static_cast<std::uint64_t>(problem.n);
  const epilogue::Params& out = params.epilogue;
  params.b =
      device.encode({.type = TensorMapType::kU8,
                     .address = operands.b,
                     .rank = 3,
                     .dims = {row_bytes, columns, 1},
                     .strides = {row_bytes, row_bytes * columns},
                     .box = {gemm::kBlockBytes, static_cast<std::uint32_t>(plan.columns / 2), 1},
                     .swizzle = Swizzle::k128});
  const std::uint64_t size = size_of(problem.output);
  const int span = gemm::pair_span(plan.columns, plan.output);
  const auto tokens = static_cast<std::uint64_t>(out.tokens);
  const auto box_tokens = static_cast<std::uint32_t>(std::min(out.box_tokens, gemm::kPairWarpRows));
  params.staged =
      device.encode({.type = size == 2 ? TensorMapType::kBF16 : TensorMapType::kU8,
                     .address = operands.output,
                     .rank = 3,
                     .dims = {columns, tokens, static_cast<std::uint64_t>(out.images)},
                     .strides = {columns * size, columns * size * tokens},
                     .box = {static_cast<std::uint32_t>(static_cast<std::uint64_t>(span) / size),
                             box_tokens, gemm::kPairWarpRows / box_tokens},
                     .swizzle = span == 128  ? Swizzle::k128
                                : span == 64 ? Swizzle::k64
                                             : Swizzle::k32});
  if (problem.a == DType::kMXFP8) {
    params.a_scales = encode_scales(device, operands.a_scales, problem.m, problem.k, 1);
    params.b_scales = encode_scales(device, operands.b_scales, problem.n, problem.k,
                                    gemm::pair_b_atoms(plan.columns));
    params.output_scales = pointer<std::uint8_t>(operands.output_scales);
  }
}

std::string describe_pair(const GemmPlan& plan) {
  return fmt::format("{}x{}, {}{} stages", plan.rows() * plan.cluster(), plan.columns,
                     plan.k_blocks > 0 ? fmt::format("{} K blocks of A, ", plan.k_blocks) : "",
                     plan.stages);
}

constexpr std::array<GemmDesignTraits, 1> kSm100Designs = {
    {{.design = GemmDesign::kPair,
      .name = "pair",
      .cluster = 2,
      .rows = pair_rows,
      .threads = pair_cta_threads,
      .shared_bytes = pair_bytes,
      .ctas_per_sm = one_cta,
      .can_be_made = pair_can_be_made,
      .fits = fits_pair,
      .is_candidate = always,
      .expected_clocks = expected_pair_clocks,
      .box = pair_box,
      .encode = encode_pair,
      .describe = describe_pair}}};

}  // namespace

std::span<const GemmDesignTraits> sm100_designs() {
  return kSm100Designs;
}

}  // namespace fovea::gpu
