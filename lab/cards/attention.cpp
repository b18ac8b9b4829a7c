// Cards of attention: the encoder's lengths, long sequences, causal, and e4m3 output.
#include "gpu/launch/attention.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lab/attention_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

gpu::AttentionProblem problem_of(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                                 std::int64_t keys, std::int64_t head_dim) {
  gpu::AttentionProblem problem;
  problem.batch = batch;
  problem.heads = heads;
  problem.queries = queries;
  problem.keys = keys;
  problem.head_dim = head_dim;
  problem.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  return problem;
}

Case attention_case(const gpu::AttentionProblem& problem, AttentionLayout layout) {
  Case one;
  one.name = fmt::format("b{}_h{}_n{}", problem.batch, problem.heads, problem.queries);
  if (problem.keys != problem.queries) {
    one.name += fmt::format("x{}", problem.keys);
  }
  one.name += fmt::format("_d{}{}", problem.head_dim, problem.causal ? "_causal" : "");
  one.make = [problem, layout](std::uint64_t seed) {
    return std::make_unique<AttentionWorkload>(problem, layout, seed);
  };
  return one;
}

/// One token, less than a tile, every length and head dimension of the checkpoints.
std::vector<gpu::AttentionProblem> encoder_sizes() {
  struct Size {
    std::int64_t batch, heads, tokens, head_dim;
  };
  std::vector<gpu::AttentionProblem> problems;
  for (const Size size :
       {Size{2, 2, 1, 64}, Size{3, 3, 17, 64}, Size{2, 12, 196, 64}, Size{1, 3, 193, 64},
        Size{23, 12, 196, 64}, Size{2, 3, 256, 64}, Size{2, 3, 576, 64}, Size{1, 2, 577, 64},
        Size{1, 2, 1024, 64}, Size{2, 2, 196, 72}, Size{2, 3, 256, 72}, Size{1, 2, 729, 72},
        Size{2, 3, 256, 96}, Size{1, 2, 576, 96}, Size{1, 2, 300, 128}, Size{2, 3, 50, 40},
        Size{1, 2, 130, 120}}) {
    problems.push_back(problem_of(size.batch, size.heads, size.tokens, size.tokens, size.head_dim));
  }
  return problems;
}

/// More keys than queries and the other way round, lengths about the ends of blocks.
std::vector<gpu::AttentionProblem> long_sizes() {
  struct Size {
    std::int64_t queries, keys, head_dim;
    bool causal;
  };
  std::vector<gpu::AttentionProblem> problems;
  for (const Size size :
       {Size{1, 1, 64, true}, Size{17, 17, 72, true}, Size{113, 203, 128, false},
        Size{113, 203, 128, true}, Size{333, 777, 64, true}, Size{190, 77, 96, false},
        Size{1023, 1024, 128, true}, Size{1000, 1000, 72, true}, Size{641, 641, 96, true},
        Size{161, 161, 128, true}, Size{129, 129, 64, true}, Size{65, 130, 80, true}}) {
    gpu::AttentionProblem problem = problem_of(2, 2, size.queries, size.keys, size.head_dim);
    problem.causal = size.causal;
    problems.push_back(problem);
  }
  return problems;
}

struct CardOf {
  std::string name;
  std::string operation;
  DType type;
  DType output;
};

/// What the compiled kernels may take, and the instructions that make them fast.
std::vector<KernelLimits> limits_of(DType type) {
  KernelLimits limits;
  limits.sass_has = {"HGMMA", "UTMALDG", "UTMASTG", "MUFU.EX2", "USETMAXREG", "STSM"};
  limits.sass_lacks = {"HMMA", "LDG", "ATOM"};
  std::vector<KernelLimits> all;
  limits.registers = 168;  // 384 or 512 threads share a multiprocessor's 65,536
  for (const std::string_view design : {"short", "flash"}) {
    limits.kernel = fmt::format("attention_{}_{}_*", design, to_string(type));
    all.push_back(limits);
  }
  KernelLimits portable;
  portable.kernel = fmt::format("attention_portable_{}_*", to_string(type));
  portable.registers = 200;
  portable.shared_bytes = 101376;  // sm_86 and sm_89 have no more for a block
  portable.sass_has = {"HMMA", "LDGSTS", "LDSM", "MUFU.EX2"};
  all.push_back(portable);
  return all;
}

Card empty_card(const CardOf& of) {
  Card card;
  card.name = of.name;
  card.operation = of.operation;
  if (of.output == DType::kE4M3) {
    card.tolerance.difference = 1e-3;  // half a unit of three bits of mantissa, squared
    card.tolerance.tile_difference = 1e-3;
  }
  card.kernels = limits_of(of.type);
  return card;
}

void add(Card& card, const CardOf& of, gpu::AttentionProblem problem, AttentionLayout layout,
         bool bench) {
  problem.type = of.type;
  problem.output = of.output;
  Case one = attention_case(problem, layout);
  one.bench = bench;
  one.small = !bench && problem.batch * problem.queries <= 1024;
  const bool gate = layout == AttentionLayout::kPacked ? problem.keys == 196
                                                       : problem.keys == 203 && problem.causal;
  one.mutants = !bench && gate && problem.batch == 2;
  card.cases.push_back(std::move(one));
}

Card encoder_card(const CardOf& of) {
  Card card = empty_card(of);
  for (const gpu::AttentionProblem& problem : encoder_sizes()) {
    add(card, of, problem, AttentionLayout::kPacked, false);
  }
  for (const gpu::AttentionProblem& problem :
       {problem_of(1024, 12, 196, 196, 64), problem_of(1, 12, 196, 196, 64),
        problem_of(256, 16, 256, 256, 72), problem_of(64, 16, 729, 729, 72),
        problem_of(64, 12, 1024, 1024, 64)}) {
    add(card, of, problem, AttentionLayout::kPacked, true);
  }
  return card;
}

Card long_card(const CardOf& of) {
  Card card = empty_card(of);
  for (const gpu::AttentionProblem& problem : long_sizes()) {
    add(card, of, problem, AttentionLayout::kSeparate, false);
  }
  for (const bool causal : {false, true}) {
    gpu::AttentionProblem problem = problem_of(4, 16, 4096, 4096, 128);
    problem.causal = causal;
    add(card, of, problem, AttentionLayout::kSeparate, true);
  }
  return card;
}

}  // namespace

std::vector<Card> attention_cards() {
  return {encoder_card({.name = "attention",
                        .operation = "softmax(scale Q K^T) V of the packed projections, bf16",
                        .type = DType::kBF16,
                        .output = DType::kBF16}),
          encoder_card({.name = "attention_e4m3",
                        .operation = "softmax(scale Q K^T) V of the packed projections, "
                                     "bf16 -> e4m3",
                        .type = DType::kBF16,
                        .output = DType::kE4M3}),
          long_card({.name = "attention_long",
                     .operation = "softmax(scale Q K^T) V of long sequences, causal or not, bf16",
                     .type = DType::kBF16,
                     .output = DType::kBF16}),
          long_card({.name = "attention_long_f16",
                     .operation = "softmax(scale Q K^T) V of long sequences, causal or not, f16",
                     .type = DType::kF16,
                     .output = DType::kF16})};
}

}  // namespace fovea::lab
