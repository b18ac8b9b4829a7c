// Cards of the matrix products: the patch embedding and the layers of an encoder block.
#include "gpu/launch/gemm.hpp"

#include <utility>

#include <fmt/format.h>

#include "lab/gemm_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

using gpu::GemmEpilogue;
using gpu::GemmProblem;

constexpr std::int64_t kRows = 232064;  // of the cases that are timed: 1184 images
constexpr std::int64_t kTokens = 196;
constexpr std::int64_t kWidth = 768;  // base-patch16-224
constexpr std::int64_t kHidden = 3072;
constexpr std::int64_t kHeadlineRows = 928256;  // 4736 images

Case gemm_case(std::string name, const GemmProblem& problem) {
  return {.name = std::move(name), .make = [problem](std::uint64_t seed) {
            return std::make_unique<GemmWorkload>(problem, seed);
          }};
}

/// Sizes that have gone wrong in matrix kernels before: one row, less than a tile, ragged ends in
/// M, N and K, the odd widths of so400m, several waves of tiles.
std::vector<Case> odd_sizes(GemmProblem problem) {
  struct Size {
    std::int64_t m, n, k;
  };
  std::vector<Case> cases;
  for (const Size size : {Size{1, 16, 16}, Size{77, 144, 48}, Size{196, 768, 768},
                          Size{729, 1152, 592}, Size{1001, 4304, 1152}, Size{256, 1152, 4304},
                          Size{3136, 2304, 768}, Size{5001, 272, 1040}}) {
    problem.m = size.m;
    problem.n = size.n;
    problem.k = size.k;
    Case one = gemm_case(fmt::format("m{}_n{}_k{}", size.m, size.n, size.k), problem);
    one.small = size.m * size.n <= 196 * 768;
    one.mutants = size.m == 196;
    cases.push_back(std::move(one));
  }
  return cases;
}

/// `bench` is the size that is timed, with the type and epilogue of all cases.
Card gemm_card(std::string name, std::string operation, const GemmProblem& bench) {
  Card card;
  card.name = std::move(name);
  card.operation = std::move(operation);
  card.cases = odd_sizes(bench);
  Case timed = gemm_case(fmt::format("m{}_n{}_k{}", bench.m, bench.n, bench.k), bench);
  timed.bench = true;
  card.cases.push_back(std::move(timed));
  if (bench.output == DType::kE4M3) {
    card.tolerance.difference = 1e-3;  // half a unit of three bits of mantissa, squared
    card.tolerance.tile_difference = 1e-3;
  }
  return card;
}

}  // namespace

std::vector<Card> gemm_cards() {
  const GemmProblem e4m3{.m = kRows, .a = DType::kE4M3, .b = DType::kE4M3};
  const GemmProblem bf16{.m = kRows};
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
  GemmProblem fc1 = sized(e4m3, kHidden, kWidth, GemmEpilogue::kGelu);
  fc1.output = DType::kE4M3;

  std::vector<Card> cards;
  cards.push_back(gemm_card("patch_embed", "e4m3 patches x weights + position table", embed(e4m3)));
  cards.push_back(gemm_card("patch_embed_u8", "u8 pixels x i8 weights + position table", pixels));
  cards.push_back(
      gemm_card("patch_embed_bf16", "bf16 patches x weights + position table", embed(bf16)));
  cards.push_back(gemm_card("gemm_qkv", "e4m3 x e4m3 + bias -> bf16",
                            sized(e4m3, 3 * kWidth, kWidth, GemmEpilogue::kBias)));
  cards.push_back(gemm_card("gemm_qkv_bf16", "bf16 x bf16 + bias",
                            sized(bf16, 3 * kWidth, kWidth, GemmEpilogue::kBias)));
  cards.push_back(gemm_card("gemm_fc1", "gelu(e4m3 x e4m3 + bias) -> e4m3", fc1));
  cards.push_back(gemm_card("gemm_fc1_bf16", "gelu(bf16 x bf16 + bias)",
                            sized(bf16, kHidden, kWidth, GemmEpilogue::kGelu)));
  cards.push_back(gemm_card("gemm_fc2", "residual += e4m3 x e4m3 + bias, bf16",
                            sized(e4m3, kWidth, kHidden, GemmEpilogue::kResidual)));
  cards.push_back(gemm_card("gemm_fc2_bf16", "residual += bf16 x bf16 + bias",
                            sized(bf16, kWidth, kHidden, GemmEpilogue::kResidual)));
  return cards;
}

}  // namespace fovea::lab
