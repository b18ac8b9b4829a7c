// Cards of LayerNorm: by the type of its input and output.
#include "gpu/launch/norm.hpp"

#include <utility>

#include <fmt/format.h>

#include "lab/norm_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

constexpr std::int64_t kRows = 232064;  // of the case that is timed: 1184 images of 196 tokens
constexpr std::int64_t kWidth = 768;

Case norm_case(const gpu::LayerNormProblem& problem) {
  Case one;
  one.name = fmt::format("rows{}_width{}", problem.rows, problem.width);
  one.make = [problem](std::uint64_t seed) {
    return std::make_unique<NormWorkload>(problem, seed);
  };
  return one;
}

Card norm_card(std::string name, std::string operation, gpu::LayerNormProblem problem) {
  struct Size {
    std::int64_t rows, width;
  };
  Card card;
  card.name = std::move(name);
  card.operation = std::move(operation);
  card.arch = 80;
  // One row, widths on both sides of what a kernel's registers hold, so400m and giant.
  for (const Size size : {Size{1, 8}, Size{3, 768}, Size{197, 776}, Size{1001, 1024},
                          Size{729, 1152}, Size{257, 1536}, Size{64, 2048}}) {
    problem.rows = size.rows;
    problem.width = size.width;
    Case one = norm_case(problem);
    one.small = true;
    one.mutants = size.rows == 197;
    card.cases.push_back(std::move(one));
  }
  problem.rows = kRows;
  problem.width = kWidth;
  Case timed = norm_case(problem);
  timed.bench = true;
  card.cases.push_back(std::move(timed));
  card.tolerance.difference = size_of(problem.output) == 1 ? 1e-3 : 1e-5;
  card.tolerance.tile_difference = card.tolerance.difference;
  card.kernels = {{.kernel = fmt::format("layer_norm_{}_*", to_string(problem.input)),
                   .registers = 128,
                   .shared_bytes = 16384,  // weight and bias of 2,048 columns
                   .sass_has = {"LDG.E.128", "STG.E.128"}}};
  return card;
}

}  // namespace

std::vector<Card> norm_cards() {
  std::vector<Card> cards;
  cards.push_back(norm_card("layer_norm", "LayerNorm, bf16 -> bf16", {}));
  cards.push_back(norm_card("layer_norm_e4m3", "LayerNorm, bf16 -> e4m3 with a scale a row",
                            {.output = DType::kE4M3, .row_scale = true}));
  cards.push_back(
      norm_card("layer_norm_e4m3_static", "LayerNorm, bf16 -> e4m3", {.output = DType::kE4M3}));
  cards.push_back(norm_card("layer_norm_i8", "LayerNorm, bf16 -> i8 with a scale a row",
                            {.output = DType::kI8, .row_scale = true}));
  cards.push_back(norm_card("layer_norm_f32", "LayerNorm, f32 -> bf16", {.input = DType::kF32}));
  cards.push_back(norm_card("layer_norm_f32_e4m3", "LayerNorm, f32 -> e4m3 with a scale a row",
                            {.input = DType::kF32, .output = DType::kE4M3, .row_scale = true}));
  return cards;
}

}  // namespace fovea::lab
