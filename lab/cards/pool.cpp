// The card of the pooling head: from tokens to embeddings in a few launches.
#include <utility>

#include <fmt/format.h>

#include "lab/pool_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

Case pool_case(const ops::PoolProblem& problem) {
  Case one;
  one.name = fmt::format("b{}_n{}_width{}", problem.images, problem.tokens, problem.hidden);
  one.make = [problem](std::uint64_t seed) {
    return std::make_unique<PoolWorkload>(problem, seed);
  };
  return one;
}

}  // namespace

std::vector<Card> pool_cards() {
  struct Size {
    std::int64_t images, tokens, heads, hidden, mlp;
  };
  const auto problem_of = [](const Size& size) {
    ops::PoolProblem problem;
    problem.images = size.images;
    problem.tokens = size.tokens;
    problem.heads = size.heads;
    problem.hidden = size.hidden;
    problem.mlp = size.mlp;
    problem.input = DType::kBF16;
    return problem;
  };
  Card card;
  card.name = "pool";
  card.operation = "the pooling head: layer norm, attention of the folded probe, then its MLP";
  card.arch = 80;
  // base, so400m and giant; one image, some, and more than the few-row kernels take.
  for (const Size& size :
       {Size{1, 196, 12, 768, 3072}, Size{3, 256, 16, 1152, 4304}, Size{5, 64, 16, 1536, 6144},
        Size{33, 49, 4, 256, 1024}, Size{290, 17, 4, 64, 128}, Size{270, 33, 6, 144, 208},
        Size{2, 20, 16, 1536, 128}}) {
    Case one = pool_case(problem_of(size));
    one.small = size.hidden <= 768 || size.mlp <= 128;
    one.mutants = size.images == 33;
    card.cases.push_back(std::move(one));
  }
  for (const std::int64_t images : {std::int64_t{1}, std::int64_t{1024}}) {
    Case timed = pool_case(problem_of({images, 196, 12, 768, 3072}));
    timed.check = images > 1;  // one image is checked above
    timed.bench = true;
    if (images == 1) {
      timed.name += "_alone";
    }
    card.cases.push_back(std::move(timed));
  }
  // Five tensors on the way are stored in bf16.
  card.tolerance.difference = 5e-5;
  card.tolerance.tile_difference = 5e-5;
  KernelLimits scores;
  scores.kernel = "pool_scores_*";
  scores.sass_has = {"HMMA", "LDG.E.128", "MUFU.RSQ"};
  KernelLimits mean;
  mean.kernel = "pool_mean";
  mean.sass_has = {"HMMA", "LDGSTS", "MUFU.EX2"};
  KernelLimits linear;
  linear.kernel = "pool_linear_*";
  linear.sass_has = {"HMMA"};
  card.kernels = {scores, mean, linear};
  return {card};
}

}  // namespace fovea::lab
