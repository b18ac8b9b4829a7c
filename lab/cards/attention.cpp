// Cards of the attention kernels: the encoder's lengths, long sequences, and causal attention.
#include "gpu/launch/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "lab/cards/attention_workload.hpp"
#include "lab/cards/registry.hpp"

namespace fovea::lab {
namespace {

ops::AttentionProblem make_problem(std::int64_t batch, std::int64_t heads, std::int64_t queries,
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

/// Returns a case named after its problem; `remark`, such as "large", describes the inputs.
Case attention_case(const ops::AttentionProblem& problem, const AttentionInputs& inputs,
                    const std::string& remark = {}) {
  const bool varlen = inputs.layout == AttentionLayout::kVarlen;
  std::string name = varlen
                         ? fmt::format("varlen{}_h{}", inputs.query_lengths.size(), problem.heads)
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
  return case_of<AttentionWorkload>(name, problem, inputs);
}

struct CardTitle {
  std::string name;
  std::string operation;
  DType type;
};

/// Returns the resource limits of the compiled kernels, and the instructions that they must
/// contain.
std::vector<KernelLimits> attention_limits(DType type) {
  std::vector<KernelLimits> all;
  const auto add = [&](std::string_view kernels, KernelLimits limits) {
    limits.kernel =
        fmt::format("attention_{}", fmt::format(fmt::runtime(kernels), to_string(type)));
    all.push_back(std::move(limits));
  };
  KernelLimits wgmma;
  wgmma.registers = 168;  // 384 or 512 threads share an SM's 65,536
  wgmma.sass_has = {"HGMMA", "UTMALDG", "UTMASTG", "MUFU.EX2", "USETMAXREG", "STSM"};
  wgmma.sass_lacks = {"HMMA", "LDG", "ATOM", "ATOMG", "ATOMS"};
  wgmma.roles = {{"producer", "UTMALDG"}, {"consumers", "HGMMA"}};
  // The output is stored by TMA, behind one fence, in two code paths: one for a CTA's last work
  // item and one for all others.
  wgmma.regions = {{"producer", {at_most("LDS", 0), at_most("STS", 0), at_most("STG", 0)}},
                   {"output store",
                    {exactly("FENCE.VIEW.ASYNC", 2), exactly("UTMACMDFLUSH", 2), at_most("STG", 0),
                     at_most("BAR", 0)}}};
  add("single_pass_{}_*", wgmma);
  // The warpgroups alternate, with one pair of barriers per block of keys.
  wgmma.regions.push_back({"key loop",
                           {exactly("BAR.SYNC", 1), exactly("BAR.ARV", 1), at_most("FENCE", 0),
                            at_most("MEMBAR", 0), at_most("STS", 0)}});
  add("online_{}_*", wgmma);

  KernelLimits mma;
  mma.sass_has = {"HMMA", "LDGSTS", "LDSM", "MUFU.EX2"};
  mma.sass_lacks = {"LDG.E.128", "ATOM", "ATOMG", "ATOMS"};  // cp.async loads bypass the registers
  add("mma_{}_*", mma);

  KernelLimits wmma = mma;
  wmma.registers = 128;  // four CTAs share an SM: of 128 threads for heads of 128, of 64 for 64
  wmma.shared_bytes = 53248;
  add("mma_small_{}_*", wmma);

  KernelLimits scalar;
  scalar.registers = 72;
  scalar.shared_bytes = 98304;
  scalar.sass_has = {"FFMA", "LDGSTS", "MUFU.EX2"};
  scalar.sass_lacks = {"HMMA", "HGMMA", "LDG.E.128", "ATOM", "ATOMG", "ATOMS"};
  add("scalar_{}_*", scalar);
  return all;
}

constexpr double kReach = 0.7;  // share of the roofline; the rest is lost to the softmax between
                                // the products and to partial tiles
/// Returns the gate for a level on a problem that fills the GPU.
ProfileGate filled_gate(const char* level, const ops::AttentionProblem& problem) {
  ProfileGate gate{.level = level,
                   .case_name = attention_case(problem, {}).name,
                   .reach = kReach,
                   .exponentials = static_cast<double>(problem.batch * problem.heads *
                                                       problem.queries * problem.keys)};
  if (gate.level == "wgmma") {
    gate.min_occupancy = kProducerOccupancy;
    gate.max_barrier = kPingPongBarrierShare;
  } else {
    gate.matrix_rate = kMmaSyncRate;
  }
  return gate;
}

ProfileGate wmma_gate(ProfileGate gate) {
  gate.reason = "mma.sync reaches 0.62 of the matrix rate, and softmax may take a third of it";
  gate.min_matrix = 0.4;
  gate.ctas_per_sm = 4;
  gate.ctas_reason = "four small CTAs are needed to keep the matrix units busy";
  return gate;
}

ProfileGate scalar_gate(ProfileGate gate) {
  gate.reason =
      "every product is a multiply-add on the FMA units; loads and softmax may take as much time "
      "again";
  gate.reach = 0;
  gate.min_fma = 0.4;
  return gate;
}

/// Returns the gates of each level on two problems that fill the GPU, one limited by the SMs and
/// one (the encoder's) by device memory, and on the smallest problem that has to be fast:
/// (2,8,512,64), in which each SM of an H200 has 64 queries.
std::vector<ProfileGate> profile_gates() {
  const ops::AttentionProblem filled = make_problem(64, 12, 1024, 1024, 64);
  const auto small = [](const char* level, double min_matrix) {
    return ProfileGate{.level = level,
                       .case_name = "b2_h8_n512_d64_f16",
                       .reach = 0,
                       .min_matrix = min_matrix,
                       .min_occupancy = 0};
  };
  ProfileGate scalar = scalar_gate(small("scalar", 0));
  ProfileGate mma = small("mma", 0.2);
  mma.reason =
      "one CTA per SM: prologue and epilogue take half of its time, and "
      "mma.sync reaches 0.62 of the matrix rate; the key groups' sums are added in shared memory "
      "once";
  mma.max_conflicts = 0.15;
  ProfileGate wgmma = small("wgmma", 0.3);
  wgmma.reason = "one CTA per SM, as for mma, but at the full matrix rate";
  wgmma.max_barrier = kPingPongBarrierShare;
  return {filled_gate("wgmma", make_problem(1024, 12, 196, 196, 64)),
          filled_gate("wgmma", filled),
          filled_gate("mma", filled),
          wmma_gate(filled_gate("wmma", filled)),
          scalar_gate(filled_gate("scalar", filled)),
          wgmma,
          mma,
          wmma_gate(small("wmma", 0)),
          scalar};
}

/// Returns the timed case, with the problem's fields set by the user.
Case attention_with(ops::AttentionProblem problem, bool packed, ProblemFields& fields) {
  constexpr FieldRange kLengths{.max = 1 << 20};
  fields.take("batch", problem.batch, {.max = 65536});
  fields.take("heads", problem.heads, {.max = 4096});
  fields.take("kv_heads", problem.kv_heads, {.max = 4096});
  if (fields.take("length", problem.queries, kLengths)) {
    problem.keys = problem.queries;
  }
  fields.take("queries", problem.queries, kLengths);
  fields.take("keys", problem.keys, kLengths);
  if (fields.take("width", problem.head_dim, {.min = 8, .max = 128, .step = 8})) {
    problem.scale = 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
  }
  std::int64_t causal = problem.causal ? 1 : 0;
  fields.take("causal", causal, {.min = 0, .max = 1});
  problem.causal = causal == 1;
  fields.take("type", problem.type, {DType::kBF16, DType::kF16});
  if (problem.heads % problem.key_heads() != 0) {
    fail("the problem's {} heads are not a multiple of its {} heads of keys", problem.heads,
         problem.key_heads());
  }
  require_size("queries", problem.batch * problem.heads, problem.queries * problem.head_dim);
  require_size("keys", problem.batch * problem.key_heads(), problem.keys * problem.head_dim);
  packed = packed && problem.queries == problem.keys && problem.key_heads() == problem.heads;
  return attention_case(problem,
                        {.layout = packed ? AttentionLayout::kPacked : AttentionLayout::kSeparate})
      .used({.mutants = problem.keys >= 64 && problem.queries >= 16});
}

Card empty_card(const CardTitle& title) {
  const auto levels = gpu::attention_level_names();
  return {.name = title.name,
          .operation = title.operation,
          .levels = {levels.begin(), levels.end()},
          .kernels = attention_limits(title.type),
          .speed_gates = {{.peer = "cuDNN",
                           .min_ratio = 0.9,
                           .reason = "within a tenth of the vendor's own kernel"}}};
}

void add(Card& card, const CardTitle& title, ops::AttentionProblem problem, AttentionLayout layout,
         bool bench) {
  problem.type = title.type;
  const bool gate = layout == AttentionLayout::kPacked ? problem.keys == 196
                                                       : problem.keys == 203 && problem.causal;
  card.cases.push_back(attention_case(problem, {.layout = layout})
                           .used({.bench = bench,
                                  .mutants = !bench && gate && problem.batch == 2,
                                  .small = !bench && problem.batch * problem.queries <= 1024}));
}

/// Adds the cases that every level has to compute correctly before it may replace torch's
/// attention.
void add_acceptance(Card& card, DType type) {
  const auto add_case = [&](ops::AttentionProblem problem, const AttentionInputs& inputs,
                            const std::string& remark = {}) -> Case& {
    problem.type = type;
    const std::string_view name = to_string(type);
    card.cases.push_back(attention_case(
        problem, inputs, remark.empty() ? std::string(name) : fmt::format("{}_{}", remark, name)));
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
  with_causal(make_problem(1, 8, 512, 512, 64), timed);
  with_causal(make_problem(2, 8, 2048, 2048, 64), timed);
  add_case(make_problem(2, 8, 512, 512, 64), separate).bench = timed;
  add_case(make_problem(2, 8, 2048, 2048, 128), separate).bench = timed;
  for (const std::int64_t length : {1, 17, 196, 577, 729}) {
    for (const std::int64_t head_dim : {64, 72, 96}) {
      with_causal(make_problem(1, 2, length, length, head_dim), false);
    }
  }
  // Cases for each kernel that processes all keys of a sequence at once, and for those that loop
  // over blocks of keys.
  for (const auto& [queries, keys, head_dim] :
       std::initializer_list<std::array<std::int64_t, 3>>{{196, 196, 64},
                                                          {250, 256, 64},
                                                          {250, 256, 72},
                                                          {250, 256, 96},
                                                          {17, 2048, 64},
                                                          {17, 2048, 128}}) {
    add_case(make_problem(1, 1, queries, keys, head_dim), separate).small = true;
  }
  for (std::int64_t head_dim = 32; head_dim <= 128; head_dim += 8) {
    if (head_dim != 64 && head_dim != 72 && head_dim != 96) {
      add_case(make_problem(1, 2, 196, 196, head_dim), separate);
    }
    add_case(make_problem(1, 2, 113, 203, head_dim, true), separate).small = true;
  }
  AttentionInputs large = separate;
  large.draw = {0.2, 8.0};  // scores of hundreds: all weight on one key or two
  add_case(make_problem(1, 2, 300, 300, 64), large, "large");
  AttentionInputs equal = separate;
  equal.equal_keys = true;
  add_case(make_problem(1, 2, 300, 300, 64), equal, "equal");

  // Grouped heads, and sequences of different lengths: some are empty, some have more queries than
  // keys.
  for (const bool causal : {false, true}) {
    ops::AttentionProblem grouped = make_problem(2, 6, 130, 193, 64, causal);
    grouped.kv_heads = 2;
    add_case(grouped, separate).mutants = true;
    ops::AttentionProblem varlen = make_problem(1, 4, 1, 1, 64, causal);
    varlen.kv_heads = 2;
    AttentionInputs lengths{.layout = AttentionLayout::kVarlen};
    lengths.query_lengths = {1, 196, 0, 70, 130, 40};
    lengths.key_lengths = {17, 196, 20, 300, 64, 0};
    add_case(varlen, lengths).mutants = !causal;
    varlen.head_dim = 96;
    add_case(varlen, lengths).small = true;
  }
  // A sequence with queries but no keys: their outputs are zero.
  AttentionInputs no_keys{.layout = AttentionLayout::kVarlen};
  no_keys.query_lengths = {70, 3};
  no_keys.key_lengths = {0, 5};
  for (const std::int64_t head_dim : {32, 64, 72, 96, 128}) {
    add_case(make_problem(1, 2, 1, 1, head_dim), no_keys, "no_keys").small = true;
  }
}

Card encoder_card(const CardTitle& title) {
  struct Size {
    std::int64_t batch, heads, tokens, head_dim;
    bool bench = false;
  };
  Card card = empty_card(title);
  card.problem = [type = title.type](ProblemFields& fields) {
    ops::AttentionProblem problem = make_problem(1024, 12, 196, 196, 64);
    problem.type = type;
    return attention_with(problem, true, fields);
  };
  for (const int width : {32, 64, 72, 96, 128}) {
    for (const std::string_view type : {"bf16", "f16"}) {
      card.emulated.push_back(
          fmt::format("batch=1,heads=3,queries=140,keys=700,width={},type={}", width, type));
      // Enough heads that every slot of the ring buffers is filled more than once.
      for (const int length : {196, 250}) {
        card.emulated.push_back(
            fmt::format("batch=1,heads=21,length={},width={},type={}", length, width, type));
        // One tile of queries per head, so that only this tile waits for the slots of its keys.
        card.emulated.push_back(fmt::format("batch=1,heads=60,queries=60,keys={},width={},type={}",
                                            length, width, type));
      }
    }
  }
  // Lengths of one token, of less than a tile and of all checkpoints, with the checkpoints' head
  // dimensions.
  for (const Size& size :
       {Size{2, 2, 1, 64},           Size{3, 3, 17, 64},           Size{2, 12, 196, 64},
        Size{1, 3, 193, 64},         Size{23, 12, 196, 64},        Size{2, 3, 256, 64},
        Size{2, 3, 576, 64},         Size{1, 2, 577, 64},          Size{1, 2, 1024, 64},
        Size{2, 2, 196, 72},         Size{2, 3, 256, 72},          Size{1, 2, 729, 72},
        Size{2, 3, 256, 96},         Size{1, 2, 576, 96},          Size{1, 2, 300, 128},
        Size{2, 3, 50, 40},          Size{1, 2, 130, 120},         Size{1024, 12, 196, 64, true},
        Size{1, 12, 196, 64, true},  Size{256, 16, 256, 72, true}, Size{64, 16, 729, 72, true},
        Size{64, 12, 1024, 64, true}}) {
    add(card, title, make_problem(size.batch, size.heads, size.tokens, size.tokens, size.head_dim),
        AttentionLayout::kPacked, size.bench);
  }
  return card;
}

Card long_card(const CardTitle& title) {
  struct Size {
    std::int64_t queries, keys, head_dim;
    bool causal;
  };
  Card card = empty_card(title);
  card.problem = [type = title.type](ProblemFields& fields) {
    ops::AttentionProblem problem = make_problem(4, 16, 4096, 4096, 128);
    problem.type = type;
    return attention_with(problem, false, fields);
  };
  // More keys than queries, fewer keys than queries, and lengths near the boundaries of blocks.
  for (const Size& size :
       {Size{1, 1, 64, true}, Size{17, 17, 72, true}, Size{113, 203, 128, false},
        Size{113, 203, 128, true}, Size{333, 777, 64, true}, Size{190, 77, 96, false},
        Size{1023, 1024, 128, true}, Size{1000, 1000, 72, true}, Size{641, 641, 96, true},
        Size{161, 161, 128, true}, Size{129, 129, 64, true}, Size{65, 130, 80, true}}) {
    add(card, title, make_problem(2, 2, size.queries, size.keys, size.head_dim, size.causal),
        AttentionLayout::kSeparate, false);
  }
  for (const bool causal : {false, true}) {
    add(card, title, make_problem(4, 16, 4096, 4096, 128, causal), AttentionLayout::kSeparate,
        true);
  }
  card.gates = {filled_gate("wgmma", make_problem(4, 16, 4096, 4096, 128))};
  return card;
}

}  // namespace

std::vector<Card> attention_cards() {
  Card card = encoder_card({.name = "attention",
                            .operation = "softmax(scale Q K^T) V at every level, bf16 and f16",
                            .type = DType::kBF16});
  std::ranges::move(attention_limits(DType::kF16), std::back_inserter(card.kernels));
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
