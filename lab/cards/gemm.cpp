// Cards of the matrix products: the patch embedding and the layers of an encoder block.
#include "gpu/launch/gemm.hpp"

#include <utility>

#include <fmt/format.h>

#include "lab/cards/gemm_workload.hpp"
#include "lab/cards/registry.hpp"
#include "ops/block_scales.hpp"

namespace fovea::lab {
namespace {

using gpu::GemmEpilogue;
using gpu::GemmProblem;

constexpr std::int64_t kTokens = 196;
constexpr std::int64_t kWidth = 768;  // base-patch16-224
constexpr std::int64_t kHidden = 3072;
constexpr std::int64_t kHeadlineRows = 928256;  // 4,736 images

Case gemm_case(const GemmProblem& problem, std::string_view suffix = {}) {
  return case_of<GemmWorkload>(
      fmt::format("m{}_n{}_k{}{}", problem.m, problem.n, problem.k, suffix), problem);
}

/// Returns cases of sizes at which matrix kernels often fail: one row, less than a tile, partial
/// tiles in M, N and K, the odd widths of so400m, several waves of tiles.
std::vector<Case> odd_sizes(GemmProblem problem) {
  struct Size {
    std::int64_t m, n, k;
  };
  std::vector<Case> cases;
  const auto add = [&](std::string_view suffix, bool mutants) {
    cases.push_back(gemm_case(problem, suffix)
                        .used({.mutants = mutants, .small = problem.m * problem.n <= 196 * 768}));
  };
  for (const Size size : {Size{1, 112, 16}, Size{77, 144, 48}, Size{196, 768, 768},
                          Size{729, 1152, 592}, Size{1001, 4304, 1152}, Size{256, 1152, 4304},
                          Size{3136, 2304, 768}, Size{5001, 272, 1040}}) {
    problem.m = size.m;
    problem.n = size.n;
    problem.k = size.k;
    add("", size.m == 196);
  }
  if (problem.epilogue == GemmEpilogue::kPosition) {
    // Enough images for panels of B to stay resident and for each position to be added to several
    // rows.
    GemmProblem images = problem;
    images.tokens = 12;
    images.m = 16 * images.tokens;
    images.n = images.k = 768;
    cases.push_back(gemm_case(images).used({.small = true}));
  }
  if (problem.a == DType::kE4M3 || problem.a == DType::kI8) {
    problem.m = 196;
    problem.n = 768;
    problem.k = 768;
    problem.row_scale = true;
    add("_row_scale", true);
  }
  return cases;
}

/// Requires that the loop over K has exactly `products` matrix instructions, with 32 bytes of K
/// each, and no loads, stores, fences or CTA barriers.
RegionLimits product_loop(const std::string& product, int products) {
  return {"product loop",
          {exactly(product, products), at_most("LDG", 0), at_most("STG", 0), at_most("LDS", 0),
           at_most("BAR", 0), at_most("MEMBAR", 0), at_most("FENCE", 0)}};
}

/// Requires one store per 16-byte vector of a lane, for two rows, in each of `forms` code paths:
/// whole and partial tiles, or one per part of a warpgroup.
RegionLimits epilogue_loop(int forms) {
  const auto stores = [forms](const ParameterValues& values) {
    return forms * 2 * value_of(values, "columns") / (4 * value_of(values, "vector"));
  };
  return {"epilogue loop",
          {exactly("STG", stores), at_most("STS", 0), at_most("BAR", 0), at_most("MEMBAR", 0),
           at_most("FENCE", 0)}};
}

/// Returns the limits for kernels that run on pairs of CTAs: the number of products, and for the
/// eight epilogue warps 16-byte stores and no barrier wider than a warp. Where rows may have
/// scales, the epilogue has a code path with scales and one without; a grid executes only one of
/// them, and each stores every 16 bytes once.
KernelLimits pair_limits(const GemmProblem& problem, const std::string& operation) {
  const std::string product = problem.b == DType::kI8   ? "UTCIMMA.2CTA"
                              : size_of(problem.a) == 1 ? "UTCQMMA.2CTA"
                                                        : "UTCHMMA.2CTA";
  const int unit_columns = 16 / static_cast<int>(size_of(problem.output));
  const int forms = size_of(problem.a) == 1 && problem.a != DType::kMXFP8 ? 2 : 1;
  const auto units = [unit_columns, forms](const ParameterValues& values) {
    return forms * value_of(values, "columns") / 2 / unit_columns;
  };
  KernelLimits limits;
  limits.kernel = "gemm_sm100_pair_" + operation + "_*";
  limits.registers = 184;  // 352 threads share an SM's 65,536
  limits.sass_has = {product, "UTMALDG.3D.2CTA", "UTCBAR.2CTA.MULTICAST",
                     "LDTM",  "UTMASTG.3D",      "STS.128",
                     "SYNCS"};
  limits.sass_lacks = {"HMMA", "IMMA", "QMMA", "STG", "LDG.E.U8", "MEMBAR.ALL.GPU"};
  limits.roles = {{"producer", "UTMALDG.3D.2CTA"}, {"products", product}, {"finish", "LDTM"}};
  limits.regions = {
      {"producer", {at_most("LDS", 0), at_most("STS", 0), at_most("BAR", 0), at_most("FENCE", 0)}},
      product_loop(product, 4),
      {"epilogue loop",
       {exactly("STS.128", units), exactly("STS", units), at_most("BAR", 0), at_most("STG", 0)}}};
  if (problem.a == DType::kMXFP8) {
    limits.sass_has.emplace_back("UTCCP.T.S.2CTA");
  }
  if (problem.output == DType::kMXFP8) {
    // A lane stores one scale, a byte, per block; other warps store the other scales of the group.
    std::erase(limits.sass_lacks, "STG");
    limits.regions[2].demands.back() = exactly("STG.E.U8", [](const ParameterValues& values) {
      return value_of(values, "columns") / 2 / static_cast<int>(ops::kScaleBlock);
    });
  }
  return limits;
}

/// Returns the resource limits of the kernels for this operation, and the instructions that they
/// must contain.
std::vector<KernelLimits> gemm_limits(const GemmProblem& problem) {
  const bool integers = problem.b == DType::kI8;
  const std::string operation = fmt::format(
      "{}{}_{}_{}",
      problem.a == DType::kU8 ? "u8s8"
      : integers              ? "s8s8"
                              : to_string(problem.a),
      problem.row_norm ? "norm" : "", gpu::to_string(problem.epilogue), to_string(problem.output));
  if (problem.a == DType::kMXFP8) {
    return {pair_limits(problem, operation)};
  }
  const std::string product = integers ? "IGMMA" : problem.a == DType::kE4M3 ? "QGMMA" : "HGMMA";
  KernelLimits limits;
  limits.registers = 168;  // 384 threads share an SM's 65,536
  limits.sass_has = {product, "UTMALDG", "SYNCS"};
  limits.roles = {{"producer", "UTMALDG"}, {"consumers", product}};
  limits.sass_lacks = {"HMMA", "IMMA", "QMMA", "LDG.E.U8"};
  limits.regions = {{"producer", {at_most("LDS", 0), at_most("STS", 0), at_most("STG", 0)}},
                    product_loop(product, 4),
                    epilogue_loop(2)};
  limits.kernel = "gemm_sm90_cooperative_" + operation + "_*";
  std::vector<KernelLimits> all = {limits};
  if (problem.output == DType::kBF16 && problem.epilogue != GemmEpilogue::kPosition) {
    KernelLimits alternating = limits;
    alternating.kernel = "gemm_sm90_ping_pong_" + operation + "_*";
    alternating.regions[1] = product_loop(product, 8);  // a warpgroup has two parts of 64 rows
    // The residual is added in shared memory, and the result stored by TMA.
    alternating.regions[2] = epilogue_loop(problem.epilogue == GemmEpilogue::kResidual ? 0 : 4);
    alternating.sass_has.emplace_back("UTMALDG.5D.MULTICAST");
    // Arriving at the other CTA's barrier with a GPU-wide fence would wait for this CTA's stores,
    // which doubles the time.
    alternating.sass_lacks.emplace_back("MEMBAR.ALL.GPU");
    all.push_back(alternating);
  }
  if (problem.a != DType::kBF16) {
    // One loop with row scales and one without; image inputs have no row scales, and all their
    // tiles are full.
    limits.regions[2] = epilogue_loop(problem.epilogue == GemmEpilogue::kPosition ? 1 : 2);
    limits.kernel = "gemm_sm90_b_stationary_" + operation + "_*";
    all.push_back(limits);
  }
  all.push_back(pair_limits(problem, operation));
  return all;
}

/// Returns the speed gates relative to the library's fused kernel or, where it has none, to its
/// sequence of kernels.
std::vector<SpeedGate> gemm_speed_gates(const GemmProblem& problem) {
  const std::string by_row = problem.a == DType::kE4M3 ? " row-wise" : "";
  const SpeedGate alone{.peer = "cuBLASLt, product alone",
                        .min_ratio = 0.85,
                        .reason = "the peer omits the norm and the epilogue"};
  const auto fused = [&](const char* suffix) {
    return SpeedGate{.peer = "cuBLASLt" + by_row + suffix,
                     .min_ratio = 0.9,
                     .reason = "within a tenth of the vendor's own kernel"};
  };
  const auto steps = [&](const char* suffix) {
    return SpeedGate{.peer = "cuBLASLt" + by_row + suffix,
                     .reason = "a fused kernel must be faster than two separate ones"};
  };
  if (problem.b == DType::kI8) {
    return {};  // the library is not measured for int8
  }
  if (problem.row_norm) {
    return {alone};
  }
  switch (problem.epilogue) {
    case GemmEpilogue::kPosition:
      return {steps(", then position")};
    case GemmEpilogue::kBias:
      return {fused(" + bias")};
    case GemmEpilogue::kGelu:
      return {fused(" + bias, gelu")};
    case GemmEpilogue::kResidual:
      return {steps(" + bias, then residual"), fused(" + bias + residual")};
  }
  return {};
}

/// Returns the timed case, with the problem's fields set by the user.
Case gemm_with(GemmProblem problem, ProblemFields& fields) {
  constexpr FieldRange kWidths{.min = 16, .max = 65536, .step = 16};
  fields.take("m", problem.m);
  fields.take("n", problem.n, kWidths);
  fields.take("k", problem.k, kWidths);
  if (problem.epilogue == GemmEpilogue::kPosition) {
    fields.take("tokens", problem.tokens, {.max = 65536});
  }
  if (problem.a == DType::kE4M3 || problem.a == DType::kI8) {
    std::int64_t row_scale = problem.row_scale ? 1 : 0;
    fields.take("row_scale", row_scale, {.min = 0, .max = 1});
    problem.row_scale = row_scale == 1;
  }
  require_size("A", problem.m, problem.k);
  require_size("output", problem.m, problem.n);
  return gemm_case(problem).used(
      {.mutants = problem.m >= 64 && problem.k >= 32 && problem.tokens != 1});
}

/// Returns the card for kernels with the types and the epilogue of `bench`, the timed problem.
Card gemm_card(std::string name, std::string operation, const GemmProblem& bench) {
  Card card{.name = std::move(name),
            .operation = std::move(operation),
            .first_arch = bench.a == DType::kMXFP8 ? first_block_scaled_arch() : 90,
            .cases = odd_sizes(bench),
            .tolerance = tolerance_of(bench.output),
            .problem = [bench](ProblemFields& fields) { return gemm_with(bench, fields); },
            .kernels = gemm_limits(bench),
            .speed_gates = gemm_speed_gates(bench)};
  card.emulated = {"m=520,n=320,k=336", "m=300,n=272,k=48",   "m=520,n=320,k=48",
                   "m=300,n=272,k=720", "m=2060,n=320,k=208", "m=2060,n=272,k=208"};
  if (bench.a == DType::kE4M3 || bench.a == DType::kI8) {
    card.emulated.emplace_back("m=300,n=272,k=48,row_scale=1");
    card.emulated.emplace_back("m=520,n=320,k=336,row_scale=1");
  }
  if (bench.epilogue == GemmEpilogue::kPosition) {
    card.emulated.emplace_back("m=192,n=320,k=336,tokens=12");
    // A tile spans many images with few tokens each, and the last tile is partial.
    card.emulated.emplace_back("m=376,n=320,k=48,tokens=4");
    card.emulated.emplace_back("m=752,n=272,k=48,tokens=8");
  }
  card.cases.push_back(gemm_case(bench).used({.bench = true}));
  card.gates = {{.case_name = card.cases.back().name,
                 .min_occupancy = kProducerOccupancy,
                 .max_barrier = kPingPongBarrierShare}};
  return card;
}

}  // namespace

std::vector<Card> gemm_cards() {
  const GemmProblem e4m3{.m = kTimedRows, .a = DType::kE4M3, .b = DType::kE4M3};
  const GemmProblem bf16{.m = kTimedRows};
  const auto sized = [](GemmProblem problem, std::int64_t n, std::int64_t k,
                        GemmEpilogue epilogue) {
    problem.n = n;
    problem.k = k;
    problem.epilogue = epilogue;
    return problem;
  };
  const auto embed = [&](GemmProblem problem) {
    problem = sized(problem, kWidth, kWidth, GemmEpilogue::kPosition);
    problem.m = kHeadlineRows;
    problem.tokens = kTokens;
    return problem;
  };
  GemmProblem pixels = embed(e4m3);
  pixels.a = DType::kU8;
  pixels.b = DType::kI8;
  const GemmProblem fc1_bf16 = sized(bf16, kHidden, kWidth, GemmEpilogue::kGelu);
  const auto to_e4m3 = [](GemmProblem problem) {
    problem.output = DType::kE4M3;
    return problem;
  };

  std::vector<Card> cards;
  const auto add = [&](const char* name, const char* operation, const GemmProblem& bench) {
    cards.push_back(gemm_card(name, operation, bench));
  };
  add("patch_embed", "e4m3 patches x weights + position table", embed(e4m3));
  add("patch_embed_u8", "u8 pixels x i8 weights + position table", pixels);
  add("patch_embed_bf16", "bf16 patches x weights + position table", embed(bf16));
  add("gemm_qkv_bf16", "bf16 x bf16 + bias", sized(bf16, 3 * kWidth, kWidth, GemmEpilogue::kBias));
  GemmProblem normed = sized(bf16, 3 * kWidth, kWidth, GemmEpilogue::kBias);
  normed.row_norm = true;
  add("gemm_qkv_norm", "bf16 x bf16, rows normalised, + bias", normed);
  add("gemm_out", "residual += e4m3 x e4m3 + bias, bf16",
      sized(e4m3, kWidth, kWidth, GemmEpilogue::kResidual));
  add("gemm_out_bf16", "residual += bf16 x bf16 + bias",
      sized(bf16, kWidth, kWidth, GemmEpilogue::kResidual));
  add("gemm_fc1_bf16", "gelu(bf16 x bf16 + bias)", fc1_bf16);
  normed.n = kHidden;
  normed.epilogue = GemmEpilogue::kGelu;
  add("gemm_fc1_norm", "gelu(bf16 x bf16, rows normalised, + bias)", normed);
  add("gemm_fc2", "residual += e4m3 x e4m3 + bias, bf16",
      sized(e4m3, kWidth, kHidden, GemmEpilogue::kResidual));
  GemmProblem int8 = e4m3;
  int8.a = int8.b = DType::kI8;
  GemmProblem fc1_int8 = sized(int8, kHidden, kWidth, GemmEpilogue::kGelu);
  fc1_int8.output = DType::kI8;
  add("gemm_qkv_int8", "i8 x i8 + bias -> bf16",
      sized(int8, 3 * kWidth, kWidth, GemmEpilogue::kBias));
  add("gemm_out_int8", "residual += i8 x i8 + bias, bf16",
      sized(int8, kWidth, kWidth, GemmEpilogue::kResidual));
  add("gemm_fc1_int8", "gelu(i8 x i8 + bias) -> i8", fc1_int8);
  add("gemm_fc1_int8_to_e4m3", "gelu(i8 x i8 + bias) -> e4m3", to_e4m3(fc1_int8));
  add("gemm_fc2_int8", "residual += i8 x i8 + bias, bf16",
      sized(int8, kWidth, kHidden, GemmEpilogue::kResidual));
  add("gemm_fc2_bf16", "residual += bf16 x bf16 + bias",
      sized(bf16, kWidth, kHidden, GemmEpilogue::kResidual));
  const GemmProblem mxfp8{.m = kTimedRows, .a = DType::kMXFP8, .b = DType::kMXFP8};
  GemmProblem fc1_mxfp8 = sized(mxfp8, kHidden, kWidth, GemmEpilogue::kGelu);
  fc1_mxfp8.output = DType::kMXFP8;
  add("gemm_qkv_mxfp8", "mxfp8 x mxfp8 + bias -> bf16",
      sized(mxfp8, 3 * kWidth, kWidth, GemmEpilogue::kBias));
  add("gemm_fc1_mxfp8", "gelu(mxfp8 x mxfp8 + bias) -> mxfp8", fc1_mxfp8);
  add("gemm_fc2_mxfp8", "residual += mxfp8 x mxfp8 + bias, bf16",
      sized(mxfp8, kWidth, kHidden, GemmEpilogue::kResidual));
  return cards;
}

}  // namespace fovea::lab
