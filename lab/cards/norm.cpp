// Cards of LayerNorm, by the type of its input and output, and of row norms.
#include "gpu/launch/norm.hpp"

#include <initializer_list>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/norm_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

constexpr std::int64_t kTimedRows = 232064;  // of the case that is timed: 1184 images of 196 tokens
constexpr std::int64_t kTimedWidth = 768;

struct Size {
  std::int64_t rows, width;
};

template <typename Measured, typename Problem>
Case norm_case(Problem problem, const Size& size) {
  problem.rows = size.rows;
  problem.width = size.width;
  Case one;
  one.name = fmt::format("rows{}_width{}", problem.rows, problem.width);
  one.make = [problem](std::uint64_t seed) { return std::make_unique<Measured>(problem, seed); };
  return one;
}

/// Small ones, of which that of 197 rows has the mutants, and the one that is timed.
template <typename Measured, typename Problem>
std::vector<Case> norm_cases(const Problem& problem, std::initializer_list<Size> sizes) {
  std::vector<Case> cases;
  for (const Size& size : sizes) {
    Case one = norm_case<Measured>(problem, size);
    one.small = true;
    one.mutants = size.rows == 197;
    cases.push_back(std::move(one));
  }
  Case timed = norm_case<Measured>(problem, {kTimedRows, kTimedWidth});
  timed.bench = true;
  cases.push_back(std::move(timed));
  return cases;
}

Card norm_card(std::string name, std::string operation, const ops::LayerNormProblem& problem) {
  Card card;
  card.name = std::move(name);
  card.operation = std::move(operation);
  card.arch = 80;
  // One row, widths on both sides of what a kernel's registers hold, so400m and giant.
  card.cases = norm_cases<NormWorkload>(
      problem, {{1, 8}, {3, 768}, {197, 776}, {1001, 1024}, {729, 1152}, {257, 1536}, {64, 2048}});
  card.tolerance = tolerance_of(problem.output);
  card.kernels = {{.kernel = fmt::format("layer_norm_{}_*", to_string(problem.input)),
                   .registers = 128,
                   .shared_bytes = 16384,  // weight and bias of 2,048 columns
                   .sass_has = {"LDG.E.128", "STG.E.128"}}};
  return card;
}

Card row_norm_card() {
  Card card;
  card.name = "row_norm";
  card.operation = "1 / deviation and -mean / deviation of rows, bf16 -> f32";
  // The results are f32: errors of one or two values would be a lottery beside the framework's.
  card.cases = norm_cases<RowNormWorkload>(
      gpu::RowNormProblem{},
      {{129, 8}, {3, 768}, {197, 776}, {1001, 1024}, {729, 1152}, {257, 1536}, {64, 2048}});
  card.tolerance.difference = 1e-11;
  card.tolerance.tile_difference = 1e-11;
  card.kernels = {
      {.kernel = "row_norm_*", .arch = 90, .registers = 128, .sass_has = {"LDG.E.128"}}};
  return card;
}

}  // namespace

std::vector<Card> norm_cards() {
  std::vector<Card> cards = {row_norm_card()};
  const auto problem = [](DType input, DType output) {
    return ops::LayerNormProblem{
        .input = input, .output = output, .row_scales = output == DType::kI8};
  };
  cards.push_back(
      norm_card("layer_norm", "LayerNorm, bf16 -> bf16", problem(DType::kBF16, DType::kBF16)));
  cards.push_back(norm_card("layer_norm_i8", "LayerNorm, bf16 -> i8 with a scale per row",
                            problem(DType::kBF16, DType::kI8)));
  cards.push_back(
      norm_card("layer_norm_f32", "LayerNorm, f32 -> bf16", problem(DType::kF32, DType::kBF16)));
  return cards;
}

}  // namespace fovea::lab
