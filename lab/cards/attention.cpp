// Cards of attention: the encoder's lengths, long sequences, and causal ones.
#include "gpu/launch/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "lab/attention_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

ops::AttentionProblem problem_of(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                                 std::int64_t keys, std::int64_t head_dim, bool causal = false) {
  return {.batch = batch,
          .heads = heads,
          .queries = queries,
          .keys = keys,
          .head_dim = head_dim,
          .scale = 1.0 / std::sqrt(static_cast<double>(head_dim)),
          .causal = causal,
          .type = DType::kBF16};
}

/// Besides the problem, what its name is to say of the inputs: "large".
Case attention_case(const ops::AttentionProblem& problem, const AttentionInputs& how,
                    const std::string& remark = {}) {
  const bool varlen = how.layout == AttentionLayout::kVarlen;
  std::string name = varlen ? fmt::format("varlen{}_h{}", how.query_lengths.size(), problem.heads)
                            : fmt::format("b{}_h{}", problem.batch, problem.heads);
  if (problem.key_heads() != problem.heads) {
    name += fmt::format("of{}", problem.key_heads());
  }
  if (!varlen) {
    name += fmt::format("_n{}", problem.queries);
    if (problem.keys != problem.queries) {
      name += fmt::format("x{}", problem.keys);
    }
  }
  name += fmt::format("_d{}{}", problem.head_dim, problem.causal ? "_causal" : "");
  if (!remark.empty()) {
    name += "_" + remark;
  }
  return case_of<AttentionWorkload>(name, problem, how);
}

struct CardOf {
  std::string name;
  std::string operation;
  DType type;
};

/// What the compiled kernels may take, and the instructions that make them fast.
std::vector<KernelLimits> limits_of(DType type) {
  std::vector<KernelLimits> all;
  const auto add = [&](std::string_view kernels, KernelLimits limits) {
    limits.kernel =
        fmt::format("attention_{}", fmt::format(fmt::runtime(kernels), to_string(type)));
    all.push_back(std::move(limits));
  };
  KernelLimits wgmma;
  wgmma.registers = 168;  // 384 or 512 threads share an SM's 65,536
  wgmma.sass_has = {"HGMMA", "UTMALDG", "UTMASTG", "MUFU.EX2", "USETMAXREG", "STSM"};
  wgmma.sass_lacks = {"HMMA", "LDG", "ATOM"};
  add("single_pass_{}_*", wgmma);
  add("online_{}_*", wgmma);

  KernelLimits mma;
  mma.sass_has = {"HMMA", "LDGSTS", "LDSM", "MUFU.EX2"};
  mma.sass_lacks = {"LDG.E.128", "ATOM"};  // operands come past the registers
  add("mma_{}_*", mma);

  KernelLimits wmma = mma;
  wmma.registers = 128;  // four blocks of 128 threads share an SM
  wmma.shared_bytes = 49152;
  add("mma_small_{}_*", wmma);
  wmma.registers = 64;  // eight
  add("mma_small_{}_d64", wmma);

  KernelLimits scalar;
  scalar.registers = 72;
  scalar.shared_bytes = 98304;
  scalar.sass_has = {"FFMA", "LDGSTS", "MUFU.EX2"};
  scalar.sass_lacks = {"HMMA", "HGMMA", "LDG.E.128", "ATOM"};
  add("scalar_{}_*", scalar);
  return all;
}

/// What each level is to reach where the problem is as small as it still has to be fast:
/// (2,8,512,64) gives an H200's SMs 64 queries each.
std::vector<ProfileGate> profile_gates() {
  const std::string name = "b2_h8_n512_d64_f16";
  return {
      {.level = "scalar",
       .case_name = name,
       .reason = "multiply-adds are all that it has",
       .least_fma = 0.4,
       .most_conflicts = 0.05,
       .most_registers = 72,
       .most_shared_bytes = 98304},
      {.level = "wmma",
       .case_name = name,
       .reason = "four small blocks an SM are to keep the matrix units at work",
       .least_tensor = 0.4,
       .most_conflicts = 0.05,
       .least_ctas_per_sm = 4,
       .most_registers = 64,
       .most_shared_bytes = 49152},
      {.level = "mma",
       .case_name = name,
       .reason = "a block an SM: half of its time goes by before the first products and "
                 "after the last, and mma.sync reaches 0.6 of an H200's matrix rate; the key "
                 "groups' sums meet in shared memory once",
       .least_tensor = 0.2,
       .most_conflicts = 0.15},
      {.level = "wgmma",
       .case_name = name,
       .reason = "as mma, at the full matrix rate",
       .least_tensor = 0.3,
       .most_conflicts = 0.05,
       .most_registers = 168},
  };
}

Card empty_card(const CardOf& of) {
  const auto levels = gpu::attention_level_names();
  return {.name = of.name,
          .operation = of.operation,
          .levels = {levels.begin(), levels.end()},
          .kernels = limits_of(of.type)};
}

void add(Card& card, const CardOf& of, ops::AttentionProblem problem, AttentionLayout layout,
         bool bench) {
  problem.type = of.type;
  Case one = attention_case(problem, {.layout = layout});
  one.bench = bench;
  one.small = !bench && problem.batch * problem.queries <= 1024;
  const bool gate = layout == AttentionLayout::kPacked ? problem.keys == 196
                                                       : problem.keys == 203 && problem.causal;
  one.mutants = !bench && gate && problem.batch == 2;
  card.cases.push_back(std::move(one));
}

/// What every level has to get right before it may stand in for torch's attention.
void add_acceptance(Card& card, DType type) {
  const auto add_case = [&](ops::AttentionProblem problem, const AttentionInputs& how,
                            const std::string& remark = {}) -> Case& {
    problem.type = type;
    const std::string_view name = to_string(type);
    card.cases.push_back(attention_case(
        problem, how, remark.empty() ? std::string(name) : fmt::format("{}_{}", remark, name)));
    return card.cases.back();
  };
  const AttentionInputs separate{.layout = AttentionLayout::kSeparate};
  const auto with_causal = [&](ops::AttentionProblem problem, bool bench) {
    for (const bool causal : {false, true}) {
      problem.causal = causal;
      add_case(problem, separate).bench = bench;
    }
  };
  const bool timed = type == DType::kF16;
  with_causal(problem_of(1, 8, 512, 512, 64), timed);
  with_causal(problem_of(2, 8, 2048, 2048, 64), timed);
  add_case(problem_of(2, 8, 512, 512, 64), separate).bench = timed;
  add_case(problem_of(2, 8, 2048, 2048, 128), separate).bench = timed;
  for (const std::int64_t length : {1, 17, 196, 577, 729}) {
    for (const std::int64_t head_dim : {64, 72, 96}) {
      with_causal(problem_of(1, 2, length, length, head_dim), false);
    }
  }
  // One for each kernel that takes all keys of a sequence at once, and for those of many keys.
  for (const auto& [queries, keys, head_dim] :
       std::initializer_list<std::array<std::int64_t, 3>>{{196, 196, 64},
                                                          {250, 256, 64},
                                                          {250, 256, 72},
                                                          {250, 256, 96},
                                                          {17, 2048, 64},
                                                          {17, 2048, 128}}) {
    add_case(problem_of(1, 1, queries, keys, head_dim), separate).small = true;
  }
  for (std::int64_t head_dim = 32; head_dim <= 128; head_dim += 8) {
    if (head_dim != 64 && head_dim != 72 && head_dim != 96) {
      add_case(problem_of(1, 2, 196, 196, head_dim), separate);
    }
    add_case(problem_of(1, 2, 113, 203, head_dim, true), separate).small = true;
  }
  AttentionInputs large = separate;
  large.draw = {0.2, 8.0};  // scores of hundreds: all weight on one key or two
  add_case(problem_of(1, 2, 300, 300, 64), large, "large");
  AttentionInputs equal = separate;
  equal.equal_keys = true;
  add_case(problem_of(1, 2, 300, 300, 64), equal, "equal");

  // Grouped heads, and sequences of different lengths: some empty, some of more queries than keys.
  for (const bool causal : {false, true}) {
    ops::AttentionProblem grouped = problem_of(2, 6, 130, 193, 64, causal);
    grouped.kv_heads = 2;
    add_case(grouped, separate).mutants = true;
    ops::AttentionProblem varlen = problem_of(1, 4, 1, 1, 64, causal);
    varlen.kv_heads = 2;
    AttentionInputs lengths{.layout = AttentionLayout::kVarlen};
    lengths.query_lengths = {1, 196, 0, 70, 130, 40};
    lengths.key_lengths = {17, 196, 20, 300, 64, 0};
    add_case(varlen, lengths).mutants = !causal;
    varlen.head_dim = 96;
    add_case(varlen, lengths).small = true;
  }
}

Card encoder_card(const CardOf& of) {
  struct Size {
    std::int64_t batch, heads, tokens, head_dim;
    bool bench = false;
  };
  Card card = empty_card(of);
  // One token, less than a tile, every length and head dimension of the checkpoints.
  for (const Size& size :
       {Size{2, 2, 1, 64},           Size{3, 3, 17, 64},           Size{2, 12, 196, 64},
        Size{1, 3, 193, 64},         Size{23, 12, 196, 64},        Size{2, 3, 256, 64},
        Size{2, 3, 576, 64},         Size{1, 2, 577, 64},          Size{1, 2, 1024, 64},
        Size{2, 2, 196, 72},         Size{2, 3, 256, 72},          Size{1, 2, 729, 72},
        Size{2, 3, 256, 96},         Size{1, 2, 576, 96},          Size{1, 2, 300, 128},
        Size{2, 3, 50, 40},          Size{1, 2, 130, 120},         Size{1024, 12, 196, 64, true},
        Size{1, 12, 196, 64, true},  Size{256, 16, 256, 72, true}, Size{64, 16, 729, 72, true},
        Size{64, 12, 1024, 64, true}}) {
    add(card, of, problem_of(size.batch, size.heads, size.tokens, size.tokens, size.head_dim),
        AttentionLayout::kPacked, size.bench);
  }
  return card;
}

Card long_card(const CardOf& of) {
  struct Size {
    std::int64_t queries, keys, head_dim;
    bool causal;
  };
  Card card = empty_card(of);
  // More keys than queries and the other way round, lengths about the ends of blocks.
  for (const Size& size :
       {Size{1, 1, 64, true}, Size{17, 17, 72, true}, Size{113, 203, 128, false},
        Size{113, 203, 128, true}, Size{333, 777, 64, true}, Size{190, 77, 96, false},
        Size{1023, 1024, 128, true}, Size{1000, 1000, 72, true}, Size{641, 641, 96, true},
        Size{161, 161, 128, true}, Size{129, 129, 64, true}, Size{65, 130, 80, true}}) {
    add(card, of, problem_of(2, 2, size.queries, size.keys, size.head_dim, size.causal),
        AttentionLayout::kSeparate, false);
  }
  for (const bool causal : {false, true}) {
    add(card, of, problem_of(4, 16, 4096, 4096, 128, causal), AttentionLayout::kSeparate, true);
  }
  return card;
}

}  // namespace

std::vector<Card> attention_cards() {
  Card card = encoder_card({.name = "attention",
                            .operation = "softmax(scale Q K^T) V at every level, bf16 and f16",
                            .type = DType::kBF16});
  std::ranges::move(limits_of(DType::kF16), std::back_inserter(card.kernels));
  card.gates = profile_gates();
  for (const DType type : {DType::kF16, DType::kBF16}) {
    add_acceptance(card, type);
  }
  return {std::move(card),
          long_card({.name = "attention_long",
                     .operation = "softmax(scale Q K^T) V of long sequences, causal or not, bf16",
                     .type = DType::kBF16}),
          long_card({.name = "attention_long_f16",
                     .operation = "softmax(scale Q K^T) V of long sequences, causal or not, f16",
                     .type = DType::kF16})};
}

}  // namespace fovea::lab
