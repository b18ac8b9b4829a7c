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
#include "gpu/launch/gemm_plan.hpp"
#include "gpu/launch/norm.hpp"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/variants.hpp"
#include "ops/call.hpp"

namespace fovea::gpu {
namespace {

static_assert(epilogue::kGeluOffset == ops::kGeluI8Offset);

std::optional<tile::Input> tile_input(const GemmProblem& problem) {
  switch (problem.a) {
    case DType::kBF16:
      return tile::Input::kBF16;
    case DType::kU8:
      return tile::Input::kU8S8;
    case DType::kI8:
      return tile::Input::kS8S8;
    case DType::kE4M3:
      return tile::Input::kE4M3;
    case DType::kMXFP8:
      return tile::Input::kMXFP8;
    default:
      return std::nullopt;
  }
}

std::optional<epilogue::Output> epilogue_output(const GemmProblem& problem) {
  switch (problem.output) {
    case DType::kBF16:
      return epilogue::Output::kBF16;
    case DType::kE4M3:
      return epilogue::Output::kE4M3;
    case DType::kMXFP8:
      return epilogue::Output::kMXFP8;
    case DType::kI8:
      return epilogue::Output::kI8;
    default:
      return std::nullopt;
  }
}

/// Whether the kernel computes what the problem asks for.
bool computes(const gemm::Tuning& kernel, const GemmProblem& problem) {
  return kernel.input == tile_input(problem) && kernel.epilogue == problem.epilogue &&
         kernel.output == epilogue_output(problem) && kernel.normed == problem.row_norm;
}

GemmPlan plan_from_tuning(KernelId kernel, const gemm::Tuning& tuning) {
  GemmPlan plan{tuning};
  plan.kernel = kernel;
  plan.staging =
      tuning.design == GemmDesign::kPingPong && tuning.epilogue == epilogue::Kind::kResidual;
  return plan;
}

int grid_size(const GemmProblem& problem, const GemmPlan& plan, const DeviceInfo& device) {
  const std::int64_t slots = device.sm_count / plan.cluster() * plan.cluster() *
                             design_traits(plan.design).ctas_per_sm(plan, device);
  return static_cast<int>(std::min(tile_count(problem, plan), slots));
}

/// Checks an operand's address. Operands are copied and stored in units of 16 bytes, except for row
/// scales and row norms, which are read one by one.
void check_operand(const GemmProblem& problem, std::string_view name, DevicePtr address,
                   std::size_t alignment = 16) {
  if (address == 0) {
    fail("{}: the address of {} is null", to_string(problem), name);
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
  if (problem.a == DType::kMXFP8) {
    check_operand(problem, "the scales of A's blocks", operands.a_scales);
    check_operand(problem, "the scales of B's blocks", operands.b_scales);
  } else if (size_of(problem.a) == 1) {
    check_operand(problem, "the scales of columns", operands.column_scale);
  }
  if (problem.output == DType::kMXFP8) {
    check_operand(problem, "the scales of the output's blocks", operands.output_scales);
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

/// Whether the problem is valid for any kernel, regardless of the device.
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
  if (problem.a == DType::kMXFP8 && problem.row_scale) {
    return {"row scales cannot be combined with block scales"};
  }
  if (problem.a == DType::kU8 || problem.a == DType::kI8) {
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
    return {"the position table has no rows"};
  }
  return {};
}

/// Whether GPU kernels support everything in the operator besides the product itself.
Support has_kernels(const ops::LinearProblem& problem) {
  return problem.epilogue == ops::Epilogue::kGeluErf
             ? Support{"GPUs compute GELU by tanh, not by erf"}
             : Support{};
}
Support has_kernels(const ops::PatchEmbedProblem& problem) {
  return problem.prefix > 0 ? Support{"GPUs do not support tokens before the patches of an image"}
                            : Support{};
}

template <typename Problem>
void require_kernels(const Problem& problem) {
  if (const Support support = has_kernels(problem); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
}

}  // namespace

DType weight_type(DType input) {
  return input == DType::kU8 ? DType::kI8 : input;
}

Support can_run(const ops::LinearProblem& problem, const DeviceInfo& device) {
  Support support = valid(problem);
  if (support) {
    support = has_kernels(problem);
  }
  if (!support || !problem.norm) {
    return support;
  }
  support = can_run(
      RowNormProblem{
          .rows = problem.rows, .width = problem.in, .eps = problem.eps, .input = problem.input},
      device);
  return support ? can_run(gemm_problem(problem), device) : support;
}

Support can_run(const ops::PatchEmbedProblem& problem, const DeviceInfo& /*device*/) {
  const Support support = valid(problem);
  return support ? has_kernels(problem) : support;
}

GemmProblem gemm_problem(const ops::LinearProblem& problem) {
  require_kernels(problem);
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
  require_kernels(problem);
  return {.m = problem.rows(),
          .n = problem.hidden,
          .k = problem.patch_elements,
          .a = problem.input,
          .b = weight_type(problem.input),
          .output = problem.output,
          .epilogue = GemmEpilogue::kPosition,
          .tokens = problem.tokens};
}

std::int64_t k_bytes(const GemmProblem& problem) {
  return problem.k * static_cast<std::int64_t>(size_of(problem.a));
}

std::int64_t k_blocks(const GemmProblem& problem) {
  return divide_up(k_bytes(problem), gemm::kBlockBytes);
}

Support fits_panel(const GemmProblem& problem, const GemmPlan& plan) {
  return k_blocks(problem) <= plan.k_blocks
             ? Support{}
             : Support{fmt::format("a panel has {} blocks of K, but the problem needs {}",
                                   plan.k_blocks, k_blocks(problem))};
}

std::int64_t tile_count(const GemmProblem& problem, const GemmPlan& plan) {
  return divide_up(problem.m, plan.rows() * plan.cluster()) * plan.cluster() *
         divide_up(problem.n, plan.columns);
}

const GemmDesignTraits& design_traits(GemmDesign design) {
  for (const auto& designs : {sm90_designs(), sm100_designs()}) {
    const auto found = std::ranges::find(designs, design, &GemmDesignTraits::design);
    if (found != designs.end()) {
      return *found;
    }
  }
  fail("no table of GEMM designs contains design {}", static_cast<int>(design));
}

std::size_t GemmPlan::shared_bytes() const {
  return design_traits(design).shared_bytes(*this);
}

int GemmPlan::rows() const {
  return design_traits(design).rows(*this);
}

int GemmPlan::cluster() const {
  return design_traits(design).cluster;
}

int GemmPlan::threads() const {
  return design_traits(design).threads(*this);
}

std::string to_string(const GemmPlan& plan) {
  return fmt::format("{} {}, {} CTAs", design_traits(plan.design).name,
                     design_traits(plan.design).describe(plan), plan.grid);
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
    std::size_t index = 0;  // orders plans of equal clocks
    GemmPlan plan;
  };
  std::vector<Ranked> ranked;
  for (const GemmVariant& variant : kGemmVariants) {
    GemmPlan plan = plan_from_tuning(variant.kernel, variant.tuning);
    const GemmDesignTraits& design = design_traits(plan.design);
    if (!computes(variant.tuning, problem) || !design.is_candidate(problem, plan) ||
        !design.fits(problem, plan) ||
        find_kernel_image(variant.kernel, device.arch()) == nullptr) {
      continue;
    }
    plan.grid = grid_size(problem, plan, device);
    ranked.push_back({design.expected_clocks(problem, plan, device), ranked.size(), plan});
  }
  std::ranges::sort(ranked, {},
                    [](const Ranked& plan) { return std::pair(plan.clocks, plan.index); });
  std::vector<GemmPlan> plans(ranked.size());
  std::ranges::transform(ranked, plans.begin(), &Ranked::plan);
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
  GemmChoice choice{.plan = plan_from_tuning(kernel, tuning), .support = valid(problem)};
  const GemmPlan& plan = choice.plan;
  const auto refuse = [&](Support support) {
    if (choice.support && !support) {
      choice.support = std::move(support);
    }
  };
  if (!computes(tuning, problem)) {
    refuse({"the kernel does not compute this problem"});
  }
  const GemmDesignTraits& design = design_traits(plan.design);
  refuse(design.can_be_made(plan));
  refuse(design.fits(problem, plan));
  if (plan.shared_bytes() > device.shared_bytes_per_block) {
    refuse({fmt::format("the kernel needs {} bytes of shared memory, but a CTA has only {}",
                        plan.shared_bytes(), device.shared_bytes_per_block)});
  }
  if (choice.support) {
    choice.plan.grid = grid_size(problem, plan, device);
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
  const GemmDesignTraits& design = design_traits(plan.design);
  const TileBox box = design.box(problem, plan);
  const auto row_bytes = static_cast<std::uint64_t>(k_bytes(problem));
  gemm::BlockScaledParams params{};
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
  out.tokens = static_cast<std::int32_t>(box.by_image ? problem.tokens : problem.m);
  out.images = static_cast<std::int32_t>(box.by_image ? problem.m / problem.tokens : 1);
  out.box_tokens = box.tokens;
  out.box_images = box.images;
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
  design.encode(device, problem, operands, plan, params);

  Launch launch;
  launch.kernel = plan.kernel;
  launch.config = {.grid = {.x = static_cast<std::uint32_t>(plan.grid)},
                   .block = {.x = static_cast<std::uint32_t>(plan.threads())},
                   .cluster = {.x = static_cast<std::uint32_t>(plan.cluster())},
                   .dynamic_shared_bytes = plan.shared_bytes(),
                   .dependent = true};
  launch.params = problem.a == DType::kMXFP8 ? to_bytes(params)
                                             : to_bytes(static_cast<const gemm::Params&>(params));
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
