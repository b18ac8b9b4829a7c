// GEMM: from problem to plan, and from plan to launch.
#include "gpu/launch/gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/variants.hpp"
#include "ops/weights.hpp"

namespace fovea::gpu {
namespace {

static_assert(epilogue::kGeluOffset == ops::kGeluI8Offset);

constexpr int kWarpgroupThreads = 128;
// Tiles of the resident design where a row's position stays in registers.
constexpr int kPositionTokens = 4;
constexpr int kPositionImages = gemm::kGroupRows / kPositionTokens;

std::string_view name_of(GemmDesign design) {
  constexpr std::array<std::string_view, 3> kNames = {"b_stationary", "cooperative", "ping_pong"};
  return kNames.at(static_cast<std::size_t>(design));
}

std::int64_t k_bytes(const GemmProblem& problem) {
  return problem.k * static_cast<std::int64_t>(size_of(problem.a));
}
std::int64_t k_blocks(const GemmProblem& problem) {
  return divide_up(k_bytes(problem), gemm::kBlockBytes);
}

std::optional<tile::Input> input_of(const GemmProblem& problem) {
  switch (problem.a) {
    case DType::kBF16:
      return tile::Input::kBF16;
    case DType::kU8:
      return tile::Input::kU8S8;
    case DType::kI8:
      return tile::Input::kS8S8;
    case DType::kE4M3:
      return tile::Input::kE4M3;
    default:
      return std::nullopt;
  }
}

epilogue::Output output_of(const GemmProblem& problem) {
  return problem.output == DType::kBF16   ? epilogue::Output::kBF16
         : problem.output == DType::kE4M3 ? epilogue::Output::kE4M3
                                          : epilogue::Output::kI8;
}

/// Whether the kernel computes what the problem asks for.
bool computes(const gemm::Tuning& kernel, const GemmProblem& problem) {
  return kernel.input == input_of(problem) && kernel.epilogue == problem.epilogue &&
         kernel.output == output_of(problem) && kernel.normed == problem.row_norm;
}

GemmPlan plan_of(KernelId kernel, const gemm::Tuning& tuning) {
  GemmPlan plan{tuning};
  plan.kernel = kernel;
  plan.staging =
      tuning.design == GemmDesign::kPingPong && tuning.epilogue == epilogue::Kind::kResidual;
  return plan;
}

/// Of whole clusters.
std::int64_t tile_count(const GemmProblem& problem, const GemmPlan& plan) {
  return divide_up(problem.m, plan.rows() * plan.cluster()) * plan.cluster() *
         divide_up(problem.n, plan.columns);
}

/// CTAs of a plan that one SM holds at once.
int ctas_per_sm(const GemmPlan& plan, const DeviceInfo& device) {
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

/// What a plan should take, in clocks of an SM; fitted to the figures in
/// docs/experiments.md. The tensor cores take 2 clocks for 64 rows, one column and a block of K.
double expected_clocks(const GemmProblem& problem, const GemmPlan& plan, const DeviceInfo& device) {
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
  // With both operands passing through shared memory the tensor cores wait a fifth of the time.
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
  const bool two = ctas_per_sm(plan, device) == 2;
  return std::ceil(waves) * products + epilogue * (two ? 0.5 : std::ceil(waves));
}

/// What a stationary panel needs of a problem.
Support fits_panels(const GemmProblem& problem, const GemmPlan& plan) {
  if (problem.n % plan.columns != 0) {
    return {fmt::format("panels of {} columns do not divide N = {}", plan.columns, problem.n)};
  }
  if (k_blocks(problem) > plan.k_blocks) {
    return {fmt::format("a panel holds {} blocks of K, and the problem has {}", plan.k_blocks,
                        k_blocks(problem))};
  }
  if (problem.epilogue == GemmEpilogue::kPosition &&
      (problem.row_scale || problem.m % problem.tokens != 0 ||
       problem.m / problem.tokens < kPositionImages)) {
    return {fmt::format("a position table needs {} whole images and no scales of rows",
                        kPositionImages)};
  }
  return {};
}

bool fits(const GemmProblem& problem, const GemmPlan& plan) {
  return plan.vector == vector_of(problem, plan) &&
         (plan.design != GemmDesign::kBStationary || fits_panels(problem, plan));
}

/// Whether a kernel can be made with this tuning, as the static_asserts of its design say.
Support can_be_made(const GemmPlan& plan) {
  const int group = epilogue::kQuad * plan.vector;
  const int share = plan.columns / plan.cluster();  // of a CTA, of a tile of B
  if (plan.columns > 256 || share % group != 0) {
    return {fmt::format("tiles of {} columns do not split into groups of {}, 256 at most",
                        plan.columns, group * plan.cluster())};
  }
  const int most_vector = plan.output == epilogue::Output::kBF16 ? 8 : 16;
  if (plan.vector > most_vector) {
    return {
        fmt::format("a lane stores {} columns at once at most, not {}", most_vector, plan.vector)};
  }
  if (plan.design == GemmDesign::kPingPong &&
      (plan.consumers != 2 || plan.output != epilogue::Output::kBF16 ||
       plan.epilogue == epilogue::Kind::kPosition)) {
    return {"ping-pong takes two warpgroups, outputs of bf16 and no position table"};
  }
  if (plan.design == GemmDesign::kBStationary && plan.input == tile::Input::kBF16) {
    return {"stationary panels are of one-byte types"};
  }
  return {};
}

int grid_of(const GemmProblem& problem, const GemmPlan& plan, const DeviceInfo& device) {
  const std::int64_t slots =
      device.sm_count / plan.cluster() * plan.cluster() * ctas_per_sm(plan, device);
  return static_cast<int>(std::min(tile_count(problem, plan), slots));
}

/// Copies and stores take 16 bytes at once; a scale or a norm of a row is read alone.
void check_operand(const GemmProblem& problem, std::string_view name, DevicePtr address,
                   std::size_t alignment = 16) {
  if (address == 0) {
    fail("{}: {} has no memory", to_string(problem), name);
  }
  if (address % alignment != 0) {
    fail("{}: {} at {:#x} is not aligned to {} bytes", to_string(problem), name, address,
         alignment);
  }
}

void check_operands(const GemmProblem& problem, const GemmOperands& operands) {
  check_operand(problem, "A", operands.a);
  check_operand(problem, "B", operands.b);
  check_operand(problem, "the output", operands.output);
  if (problem.epilogue == GemmEpilogue::kPosition) {
    check_operand(problem, "the position table", operands.position);
  } else {
    check_operand(problem, "the bias", operands.bias);
  }
  if (size_of(problem.a) == 1) {
    check_operand(problem, "the scales of columns", operands.column_scale);
  }
  if (problem.row_scale) {
    check_operand(problem, "the scales of rows", operands.row_scale, sizeof(float));
  }
  if (problem.row_norm) {
    check_operand(problem, "the norms of rows", operands.row_norm, sizeof(epilogue::RowNorm));
    check_operand(problem, "the sums of columns", operands.column_sum);
  }
  if (size_of(problem.output) == 1 &&
      (!std::isfinite(operands.output_scale) || operands.output_scale <= 0)) {
    fail("{}: the output's scale is {}, not positive and finite", to_string(problem),
         operands.output_scale);
  }
}

/// Whether any kernel could run it, whatever the device.
Support valid(const GemmProblem& problem) {
  if (problem.m < 1 || problem.n < 1 || problem.k < 1) {
    return {
        fmt::format("sizes must be positive, not {} x {} x {}", problem.m, problem.n, problem.k)};
  }
  if (problem.b != weight_type(problem.a)) {
    return {fmt::format("B must be of A's type, or i8 when A is u8, not {} x {}",
                        to_string(problem.a), to_string(problem.b))};
  }
  if (problem.n % 16 != 0 || problem.k % 16 != 0) {
    return {fmt::format("N and K must be multiples of 16, not {} and {}", problem.n, problem.k)};
  }
  if (size_of(problem.a) == 1 && problem.a != DType::kE4M3) {
    // Sums of products of the largest values must fit 32 bits.
    const std::int64_t largest = (problem.a == DType::kU8 ? 255 : 128) * std::int64_t{128};
    if (problem.k > INT32_MAX / largest) {
      return {fmt::format("K = {} is too long for sums of {} products in 32 bits; at most {}",
                          problem.k, to_string(problem.a), INT32_MAX / largest)};
    }
  }
  if (problem.m > INT32_MAX - 128) {
    return {fmt::format("too many rows: {}", problem.m)};
  }
  if (problem.epilogue == GemmEpilogue::kPosition && problem.tokens < 1) {
    return {"a position table without rows"};
  }
  return {};
}

}  // namespace

DType weight_type(DType input) {
  return input == DType::kU8 ? DType::kI8 : input;
}

GemmProblem gemm_problem(const ops::LinearProblem& problem) {
  return {.m = problem.rows,
          .n = problem.out,
          .k = problem.in,
          .a = problem.input,
          .b = weight_type(problem.input),
          .output = problem.output,
          .epilogue = problem.epilogue == ops::Epilogue::kGeluTanh   ? GemmEpilogue::kGelu
                      : problem.epilogue == ops::Epilogue::kResidual ? GemmEpilogue::kResidual
                                                                     : GemmEpilogue::kBias,
          .row_scale = problem.row_scales,
          .row_norm = problem.norm};
}

GemmProblem gemm_problem(const ops::PatchEmbedProblem& problem) {
  return {.m = problem.rows(),
          .n = problem.hidden,
          .k = problem.patch_elements,
          .a = problem.input,
          .b = weight_type(problem.input),
          .output = problem.output,
          .epilogue = GemmEpilogue::kPosition,
          .tokens = problem.tokens};
}

std::size_t GemmPlan::shared_bytes() const {
  const int tables = 2 * consumers;
  if (design == GemmDesign::kPingPong) {
    return gemm::ping_pong_shared_bytes(columns, stages, staging);
  }
  return design == GemmDesign::kBStationary
             ? gemm::b_stationary_shared_bytes(columns, k_blocks, stages, tables)
             : gemm::cooperative_shared_bytes(rows(), columns, stages, tables);
}

int GemmPlan::rows() const {
  switch (design) {
    case GemmDesign::kCooperative:
      return consumers * gemm::kGroupRows;
    case GemmDesign::kPingPong:
      return gemm::kPingPongRows;
    case GemmDesign::kBStationary:
      return gemm::kGroupRows;
  }
  return 0;
}

int GemmPlan::cluster() const {
  return design == GemmDesign::kPingPong ? gemm::kPingPongCluster : 1;
}

int GemmPlan::threads() const {
  return (consumers + 1) * kWarpgroupThreads;  // and the producer
}

std::string to_string(const GemmPlan& plan) {
  return fmt::format("{} {}x{}{}, {} consumers, {} stages, {} columns a store, {} CTAs",
                     name_of(plan.design), plan.rows(), plan.columns,
                     plan.k_blocks > 0 ? fmt::format(", {} K blocks", plan.k_blocks) : "",
                     plan.consumers, plan.stages, plan.vector, plan.grid);
}

std::string_view to_string(GemmEpilogue epilogue) {
  constexpr std::array<std::string_view, 4> kNames = {"bias", "gelu", "residual", "position"};
  return kNames.at(static_cast<std::size_t>(epilogue));
}

std::string to_string(const GemmProblem& problem) {
  return fmt::format("gemm ({}, {}) = {}({} x {}{}{}), K {}, {}", problem.m, problem.n,
                     to_string(problem.epilogue), to_string(problem.a), to_string(problem.b),
                     problem.row_scale ? ", row scales" : "",
                     problem.row_norm ? ", rows normalised" : "", problem.k,
                     to_string(problem.output));
}

std::vector<GemmPlan> gemm_plans(const GemmProblem& problem, const DeviceInfo& device) {
  struct Ranked {
    double clocks = 0;
    std::size_t place = 0;  // decides between equals
    GemmPlan plan;
  };
  std::vector<Ranked> found;
  for (const GemmVariant& variant : kGemmVariants) {
    GemmPlan plan = plan_of(variant.kernel, variant.tuning);
    if (!computes(variant.tuning, problem) || !fits(problem, plan) ||
        find_kernel_image(variant.kernel, device.arch()) == nullptr) {
      continue;
    }
    plan.grid = grid_of(problem, plan, device);
    found.push_back({expected_clocks(problem, plan, device), found.size(), plan});
  }
  std::ranges::sort(found, {}, [](const Ranked& one) { return std::pair(one.clocks, one.place); });
  std::vector<GemmPlan> plans;
  plans.reserve(found.size());
  for (const Ranked& one : found) {
    plans.push_back(one.plan);
  }
  return plans;
}

GemmChoice choose_gemm(const GemmProblem& problem, const DeviceInfo& device,
                       const GateRecord& record) {
  if (Support support = valid(problem); !support) {
    return {.plan = {}, .support = std::move(support)};
  }
  const std::vector<GemmPlan> plans = gemm_plans(problem, device);
  if (plans.empty()) {
    return {
        .plan = {},
        .support = {fmt::format("no kernel for {} on sm_{}", to_string(problem), device.arch())}};
  }
  std::vector<std::string_view> kernels;
  std::ranges::transform(plans, std::back_inserter(kernels),
                         [](const GemmPlan& plan) { return info_of(plan.kernel).name; });
  const std::size_t chosen = record.choose(kernels);
  GemmChoice choice{.plan = plans[chosen], .support = {}};
  if (chosen > 0) {
    choice.notice =
        fmt::format("{} runs in the place of {}, which missed its gates on {}: {}", kernels[chosen],
                    kernels.front(), device.name, record.missed(kernels.front()));
  }
  return choice;
}

GemmChoice choose_gemm(const GemmProblem& problem, const DeviceInfo& device) {
  return choose_gemm(problem, device, gate_record(device));
}

GemmChoice tuned_gemm(const GemmProblem& problem, const DeviceInfo& device, KernelId kernel,
                      const gemm::Tuning& tuning) {
  GemmChoice choice{.plan = plan_of(kernel, tuning), .support = valid(problem)};
  const GemmPlan& plan = choice.plan;
  const auto refuse = [&](Support support) {
    if (choice.support && !support) {
      choice.support = std::move(support);
    }
  };
  if (!computes(tuning, problem)) {
    refuse({"the kernel computes something else"});
  }
  refuse(can_be_made(plan));
  if (problem.n % (epilogue::kQuad * plan.vector) != 0) {
    refuse({fmt::format("lanes that store {} columns at once do not divide N = {}", plan.vector,
                        problem.n)});
  }
  if (plan.design == GemmDesign::kBStationary) {
    refuse(fits_panels(problem, plan));
  }
  if (plan.shared_bytes() > device.shared_bytes_per_block) {
    refuse({fmt::format("it takes {} bytes of shared memory, and a CTA has {}", plan.shared_bytes(),
                        device.shared_bytes_per_block)});
  }
  if (choice.support) {
    choice.plan.grid = grid_of(problem, plan, device);
  }
  return choice;
}

Support can_run(const GemmProblem& problem, const DeviceInfo& device) {
  return choose_gemm(problem, device).support;
}

Launch gemm_launch(Device& device, const GemmProblem& problem, const GemmOperands& operands,
                   const GemmPlan& plan) {
  check_operands(problem, operands);
  const bool position = problem.epilogue == GemmEpilogue::kPosition;
  const bool by_image = position && plan.design == GemmDesign::kBStationary;
  const auto row_bytes = static_cast<std::uint64_t>(k_bytes(problem));
  gemm::Params params{};
  epilogue::Params& out = params.epilogue;
  out.output = pointer<void>(operands.output);
  out.position = pointer<const void>(operands.position);
  out.bias = pointer<const float>(operands.bias);
  out.column_scale = pointer<const float>(operands.column_scale);
  out.row_scale = problem.row_scale ? pointer<const float>(operands.row_scale) : nullptr;
  out.row_norm = problem.row_norm ? pointer<const epilogue::RowNorm>(operands.row_norm) : nullptr;
  out.column_sum = pointer<const float>(operands.column_sum);
  out.inverse_output_scale = 1.0F / operands.output_scale;
  out.columns = static_cast<std::int32_t>(problem.n);
  out.position_rows = static_cast<std::int32_t>(position ? problem.tokens : 1);
  out.tokens = static_cast<std::int32_t>(by_image ? problem.tokens : problem.m);
  out.images = static_cast<std::int32_t>(by_image ? problem.m / problem.tokens : 1);
  out.box_tokens = by_image ? kPositionTokens : plan.rows();
  out.box_images = by_image ? kPositionImages : 1;
  params.image_tiles = static_cast<std::int32_t>(divide_up(out.images, out.box_images));
  params.row_tiles =
      static_cast<std::int32_t>(divide_up(out.tokens, out.box_tokens)) * params.image_tiles;
  params.column_tiles = static_cast<std::int32_t>(divide_up(problem.n, plan.columns));
  params.k_blocks = static_cast<std::int32_t>(k_blocks(problem));

  TensorMapDesc a{.type = TensorMapType::kU8,
                  .address = operands.a,
                  .rank = 3,
                  .dims = {row_bytes, static_cast<std::uint64_t>(out.tokens),
                           static_cast<std::uint64_t>(out.images)},
                  .strides = {row_bytes, row_bytes * static_cast<std::uint64_t>(out.tokens)},
                  .box = {gemm::kBlockBytes, static_cast<std::uint32_t>(out.box_tokens),
                          static_cast<std::uint32_t>(out.box_images)},
                  .swizzle = Swizzle::k128};
  params.a = device.encode(a);
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
    params.residual =
        device.encode({.type = TensorMapType::kBF16,
                       .address = operands.output,
                       .rank = 3,
                       .dims = {kGroup, static_cast<std::uint64_t>(problem.m), columns / kGroup},
                       .strides = {columns * 2, kGroup * 2},
                       .box = {kGroup, static_cast<std::uint32_t>(plan.rows()),
                               static_cast<std::uint32_t>(plan.columns / kGroup)},
                       .swizzle = Swizzle::kNone});
  }

  Launch launch;
  launch.kernel = plan.kernel;
  launch.config = {.grid = {.x = static_cast<std::uint32_t>(plan.grid)},
                   .block = {.x = static_cast<std::uint32_t>(plan.threads())},
                   .cluster = {.x = static_cast<std::uint32_t>(plan.cluster())},
                   .dynamic_shared_bytes = plan.shared_bytes(),
                   .dependent = true};
  launch.params = to_bytes(params);
  return launch;
}

Launch gemm_launch(Device& device, const GemmProblem& problem, const GemmOperands& operands) {
  const GemmChoice choice = choose_gemm(problem, device.info());
  if (!choice.support) {
    fail("{}", choice.support.why);
  }
  return gemm_launch(device, problem, operands, choice.plan);
}

}  // namespace fovea::gpu
