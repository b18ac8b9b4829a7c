// Attention's launcher without a GPU: what it refuses, and which kernels it would run.
#include "gpu/launch/attention.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/attention/attention_params.hpp"
#include "kernels/variants.hpp"

namespace fovea::gpu {
namespace {

using ops::AttentionOperands;
using ops::AttentionProblem;
using ops::packed_attention;

DeviceInfo device_of(int arch) {
  DeviceInfo info;
  info.name = "a GPU";
  info.compute_major = arch / 10;
  info.compute_minor = arch % 10;
  info.sm_count = 132;
  info.shared_bytes_per_block = arch == 86 || arch == 89 ? 101376 : arch == 80 ? 166912 : 232448;
  return info;
}

AttentionProblem problem_of(std::int64_t tokens, std::int64_t head_dim) {
  return packed_attention(2, tokens, 12, head_dim, 0.125, DType::kBF16);
}

using Names = std::vector<std::string>;

std::vector<std::string> plans_of(const AttentionProblem& problem, int arch) {
  std::vector<std::string> names;
  for (const AttentionPlan& plan : attention_plans(problem, device_of(arch))) {
    names.push_back(to_string(plan));
  }
  return names;
}

/// The plans of one level alone.
Names plans_at(const AttentionProblem& problem, int arch, AttentionLevel level) {
  Names names;
  for (const AttentionPlan& plan : attention_plans(problem, device_of(arch))) {
    if (plan_level(plan) == level) {
      names.push_back(to_string(plan));
    }
  }
  return names;
}

TEST(AttentionPlans, ShortSequencesStayOnChip) {
  EXPECT_EQ(plans_at(problem_of(196, 64), 90, AttentionLevel::kWgmma).front(),
            "single_pass_d64_k200");
  EXPECT_EQ(plans_of(problem_of(256, 72), 90).front(), "single_pass_d72_k256");
  // Fewer keys than the kernel's last group of columns, or a mask, are not for it.
  EXPECT_EQ(plans_at(problem_of(192, 64), 90, AttentionLevel::kWgmma).front().substr(0, 6),
            "online");
  AttentionProblem causal = problem_of(196, 64);
  causal.causal = true;
  EXPECT_EQ(plans_at(causal, 90, AttentionLevel::kWgmma).front().substr(0, 6), "online");
}

// As they were measured on an H200 (docs/experiments.md): padding of keys and of queries, and how
// many rounds of items the SMs need.
TEST(AttentionPlans, OnHopperTheShortestTimeIsChosen) {
  const auto first = [](std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                        bool causal = false) {
    AttentionProblem problem = packed_attention(batch, tokens, heads, 64, 0.125, DType::kF16);
    problem.causal = causal;
    return plans_of(problem, 90).front();
  };
  EXPECT_EQ(first(64, 12, 576), "online_d64_k96") << "blocks of 128 would pad to 640";
  EXPECT_EQ(first(64, 12, 768), "online_d64_k128");
  EXPECT_EQ(first(2, 8, 2048), "online_d64_k64") << "128 items of 256 queries: one round";
  EXPECT_EQ(first(2, 8, 1024), "online_d64_k160") << "128 items of 128 queries: one round";
  EXPECT_EQ(first(4, 16, 4096, true), "online_d64_k128");
  // So few queries that warps share them.
  EXPECT_EQ(first(1, 8, 512), "mma_d64_r32_g8");
  EXPECT_EQ(first(2, 8, 512), "mma_d64_r64_g4");
  EXPECT_EQ(first(2, 8, 512, true), "mma_d64_r64_g4");
  EXPECT_EQ(first(1, 8, 1024), "mma_d64_r64_g4");
  EXPECT_EQ(first(4, 8, 512).substr(0, 6), "online");
  // The encoder's lengths stay on chip, one image too.
  EXPECT_EQ(first(1, 12, 196), "single_pass_d64_k200");
}

// As they were measured on an H200: blocks of many queries where there are enough of them, of few
// where sequences would pad them, and warps that share keys where SMs would be idle.
TEST(AttentionPlans, MmaBlocksShrinkUntilTheyFillTheGpu) {
  const auto first = [](std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                        std::int64_t head_dim = 64, int arch = 90) {
    return plans_at(packed_attention(batch, tokens, heads, head_dim, 0.125, DType::kF16), arch,
                    AttentionLevel::kMma)
        .front();
  };
  EXPECT_EQ(first(2, 8, 2048), "mma_d64_r128_k128");
  EXPECT_EQ(first(2, 8, 1024), "mma_d64_r128_k128");
  EXPECT_EQ(first(256, 12, 256), "mma_d64_r128_k128");
  EXPECT_EQ(first(256, 12, 196), "mma_d64_r64_k80") << "blocks of 128 would pad keys to 256";
  EXPECT_EQ(first(2, 8, 729), "mma_d64_r64_k80") << "96 blocks of 128 queries";
  EXPECT_EQ(first(2, 8, 512), "mma_d64_r64_g4");
  EXPECT_EQ(first(1, 8, 512), "mma_d64_r32_g8");
  EXPECT_EQ(first(2, 8, 2048, 128), "mma_d128_r128_k64");
  EXPECT_EQ(first(2, 8, 512, 128), "mma_d128_r64_k64");
  // Elsewhere kernels of fewer registers; Ada has no shared memory for warps that share keys.
  EXPECT_EQ(first(2, 8, 2048, 64, 80), "mma_d64_r128_k64");
  EXPECT_EQ(first(2, 8, 512, 64, 80), "mma_d64_r64_g4");
  EXPECT_EQ(first(2, 8, 2048, 64, 89), "mma_d64_r128_k64");
  EXPECT_EQ(first(2, 8, 512, 64, 89), "mma_d64_r64_k64");
  EXPECT_EQ(first(2, 8, 2048, 128, 89), "mma_d128_r128_k32");
}

TEST(AttentionPlans, EveryLevelThatTheGpuHas) {
  for (const int arch : {80, 86, 89}) {
    EXPECT_TRUE(plans_at(problem_of(196, 64), arch, AttentionLevel::kWgmma).empty()) << arch;
    EXPECT_FALSE(plans_at(problem_of(196, 64), arch, AttentionLevel::kMma).empty()) << arch;
    EXPECT_EQ(plans_at(problem_of(196, 72), arch, AttentionLevel::kWmma), Names{"mma_small_d128"});
    EXPECT_EQ(plans_at(problem_of(196, 64), arch, AttentionLevel::kScalar), Names{"scalar_d64_s2"});
    EXPECT_EQ(plans_at(problem_of(2048, 40), arch, AttentionLevel::kScalar),
              Names{"scalar_d64_s3"});
  }
  const DeviceInfo blackwell = device_of(100);
  EXPECT_EQ(plan_level(attention_plan(problem_of(196, 64), blackwell)), AttentionLevel::kMma);
  EXPECT_THROW((void)attention_plan(problem_of(196, 64), blackwell, AttentionLevel::kScalar),
               Error);
  // Heads between two kernels' run in the wider one.
  EXPECT_EQ(plans_of(problem_of(196, 80), 90).front(), "online_d96_k96");
  EXPECT_EQ(plans_at(problem_of(196, 80), 80, AttentionLevel::kMma).front(), "mma_d80_r64_k128");
}

// Whatever the plan, its kernel is in the program and fits a block of the GPU.
TEST(AttentionPlans, KernelsExistAndFitABlock) {
  for (const auto& [tuning, bf16, f16] : kSinglePassVariants) {
    EXPECT_LE(attention::shared_bytes(tuning), 232448U);
  }
  for (const auto& [tuning, bf16, f16] : kOnlineVariants) {
    EXPECT_LE(attention::shared_bytes(tuning), 232448U);
  }
  for (const auto& [tuning, bf16, f16] : kScalarVariants) {
    EXPECT_LE(attention::scalar_shared_bytes(tuning), 98304U);
  }
  for (const auto& [tuning, bf16, f16] : kMmaSmallVariants) {
    EXPECT_LE(attention::mma_small_shared_bytes(tuning), 101376U);
  }
  if (kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  for (const int arch : {80, 86, 89, 90, 100, 103, 120}) {
    for (std::int64_t head_dim = 32; head_dim <= 128; head_dim += 8) {
      for (const DType type : {DType::kBF16, DType::kF16}) {
        const AttentionProblem problem = packed_attention(2, 196, 12, head_dim, 0.1, type);
        for (const AttentionPlan& plan : attention_plans(problem, device_of(arch))) {
          EXPECT_NE(find_kernel_image(kernel_of(plan, type), arch), nullptr)
              << to_string(plan) << ' ' << arch;
        }
      }
    }
  }
}

TEST(AttentionLevels, HaveNames) {
  using Level = AttentionLevel;
  for (const Level level : {Level::kScalar, Level::kWmma, Level::kMma, Level::kWgmma}) {
    EXPECT_EQ(parse_attention_level(to_string(level)), level);
  }
  EXPECT_EQ(parse_attention_level("cuda"), std::nullopt);
}

TEST(AttentionLevels, AreForced) {
  const DeviceInfo hopper = device_of(90);
  const AttentionProblem problem = problem_of(196, 64);
  for (const AttentionLevel level : {AttentionLevel::kScalar, AttentionLevel::kWmma,
                                     AttentionLevel::kMma, AttentionLevel::kWgmma}) {
    EXPECT_EQ(plan_level(attention_plan(problem, hopper, level)), level);
  }
  EXPECT_THROW((void)attention_plan(problem, device_of(80), AttentionLevel::kWgmma), Error);
  AttentionProblem varlen = problem;
  varlen.varlen = true;
  EXPECT_EQ(plan_level(attention_plan(varlen, hopper)), AttentionLevel::kMma);
  EXPECT_NE(can_run(varlen, hopper, AttentionLevel::kWgmma).why.find("varlen"), std::string::npos);
}

TEST(AttentionLevels, AreForcedByTheEnvironment) {
  AttentionProblem problem = problem_of(196, 64);
  problem.batch = 64;
  const auto with = [&](const char* value) {
    setenv("FOVEA_FORCE_KERNEL", value, 1);
    std::string chosen;
    try {
      chosen = to_string(attention_plan(problem, device_of(90)));
    } catch (const Error& error) {
      chosen = error.what();
    }
    unsetenv("FOVEA_FORCE_KERNEL");
    return chosen;
  };
  EXPECT_EQ(with("mma").substr(0, 7), "mma_d64");
  EXPECT_EQ(with("scalar"), "scalar_d64_s2");
  EXPECT_EQ(with("wgmma"), "single_pass_d64_k200");
  EXPECT_EQ(with(""), "single_pass_d64_k200");
  EXPECT_NE(with("fast").find("scalar, wmma, mma, wgmma"), std::string::npos);
}

TEST(AttentionLevels, OneThatMissedAGateIsNotChosen) {
  const AttentionProblem problem = problem_of(196, 64);
  const auto choose = [&](std::vector<GateEntry> entries, int arch = 80,
                          std::optional<AttentionLevel> level = std::nullopt) {
    const GateRecord record(std::move(entries));
    const AttentionChoice choice = choose_attention(problem, device_of(arch), level, record);
    return std::pair(plan_level(choice.plan), choice.notice);
  };
  using enum AttentionLevel;
  const GateEntry mma{.name = "mma", .seconds = 1.0, .missed = "too slow"};
  const GateEntry wmma{.name = "wmma", .seconds = 0.9, .missed = {}};
  const auto [level, notice] = choose({mma, wmma});
  EXPECT_EQ(level, kWmma);
  EXPECT_NE(notice.find("level wmma, not mma, which missed its gates on a GPU: too slow"),
            std::string::npos)
      << notice;
  // Forced it runs, and where nothing is on record, or nothing missed.
  const std::pair as_ever{kMma, std::string()};
  EXPECT_EQ(choose({mma, wmma}, 80, kMma), as_ever);
  EXPECT_EQ(choose({}), as_ever);
  EXPECT_EQ(choose({wmma}), as_ever);
  // Only one that is known to do better takes its place.
  EXPECT_EQ(choose({mma}), as_ever);
  GateEntry also = wmma;
  also.missed = "too many bank conflicts";
  EXPECT_EQ(choose({mma, also}), as_ever);
  EXPECT_EQ(choose({mma, wmma, also}), as_ever);
  GateEntry slow = wmma;
  slow.seconds = 1.1;
  EXPECT_EQ(choose({mma, slow}), as_ever);
  // Of other cases it says nothing, neither that it is better nor that it is worse.
  slow.case_name = "another";
  EXPECT_EQ(choose({mma, slow}), as_ever);
  EXPECT_EQ(choose({mma, wmma, slow}).first, kWmma);
  slow = wmma;
  slow.card = "another";
  EXPECT_EQ(choose({mma, slow}), as_ever);
  // That of a level that does not come first says nothing.
  EXPECT_EQ(choose({also}, 90).second, "");
}

TEST(AttentionCanRun, SaysWhatIsWrong) {
  const auto reason = [](auto change, int arch = 90) {
    AttentionProblem problem = problem_of(196, 64);
    change(problem);
    const std::string text = can_run(problem, device_of(arch)).why;
    EXPECT_EQ(attention_plans(problem, device_of(arch)).empty(), !text.empty());
    return text;
  };
  using Problem = AttentionProblem;
  EXPECT_EQ(reason([](Problem&) {}), "");
  EXPECT_NE(reason([](Problem& p) { p.keys = 0; }).find("a size of 0"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.type = DType::kF32; }).find("bf16 or f16"),
            std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.head_dim = 60; }).find("multiples of 8"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.head_dim = 136; }).find("up to 128"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.scale = 0.0; }).find("scale"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.q.row += 4; }).find("strides"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) {
              p.causal = true;
              p.keys = 100;
            }).find("have no keys"),
            std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.kv_heads = 5; }).find("not a multiple"), std::string::npos);
  EXPECT_EQ(reason([](Problem& p) { p.kv_heads = 4; }), "");
  EXPECT_NE(reason([](Problem& p) { p.batch = std::int64_t{1} << 30; }).find("too large"),
            std::string::npos);
  EXPECT_NE(reason([](Problem&) {}, 75).find("7.5"), std::string::npos);
  if (kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  for (const int arch : {80, 86, 87, 89, 90, 100, 103, 120}) {
    EXPECT_EQ(reason([](Problem&) {}, arch), "") << arch;
  }
}

TEST(AttentionProblems, OfPackedProjections) {
  const AttentionProblem problem = problem_of(196, 64);
  EXPECT_EQ(problem.q.row, 3 * 768);
  EXPECT_EQ(problem.o.row, 768);
  const AttentionOperands operands = packed_operands(problem, 4096, 1 << 20);
  EXPECT_EQ(operands.k - operands.q, 768U * 2);
  EXPECT_EQ(operands.v - operands.k, 768U * 2);
  EXPECT_EQ(to_string(problem), "attention (2,12,196,64) bf16");
}

}  // namespace
}  // namespace fovea::gpu
