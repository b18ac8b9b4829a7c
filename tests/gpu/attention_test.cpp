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
#include "kernels/attention/params.hpp"

namespace fovea::gpu {
namespace {

DeviceInfo device_of(int arch) {
  DeviceInfo info;
  info.name = "a GPU";
  info.compute_major = arch / 10;
  info.compute_minor = arch % 10;
  info.sm_count = 132;
  return info;
}

AttentionProblem problem_of(std::int64_t tokens, std::int64_t head_dim) {
  return packed_attention(2, tokens, 12, head_dim, 0.125, DType::kBF16, DType::kBF16);
}

std::vector<std::string> plans_of(const AttentionProblem& problem, int arch) {
  std::vector<std::string> names;
  for (const AttentionPlan& plan : attention_plans(problem, device_of(arch))) {
    names.push_back(to_string(plan));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(AttentionPlans, ShortSequencesStayOnChip) {
  EXPECT_EQ(plans_of(problem_of(196, 64), 90),
            (Names{"short_d64_k200", "flash_d64_k128", "flash_d64_k96", "portable_d64"}));
  EXPECT_EQ(plans_of(problem_of(256, 72), 90).front(), "short_d72_k256");
  // Fewer keys than the kernel's last group of columns, or a mask, are not for it.
  EXPECT_EQ(plans_of(problem_of(192, 64), 90).front(), "flash_d64_k96");
  AttentionProblem causal = problem_of(196, 64);
  causal.causal = true;
  EXPECT_EQ(plans_of(causal, 90).size(), 3U);
}

TEST(AttentionPlans, BlocksOfKeysPadLeast) {
  EXPECT_EQ(plans_of(problem_of(576, 64), 90).front(), "flash_d64_k96");
  EXPECT_EQ(plans_of(problem_of(1024, 64), 90).front(), "flash_d64_k128");
  EXPECT_EQ(plans_of(problem_of(768, 64), 90).front(), "flash_d64_k128") << "the wider of equals";
}

TEST(AttentionPlans, OtherGpusAndShapesGetThePortableKernel) {
  for (const int arch : {80, 86, 89, 100}) {
    EXPECT_EQ(plans_of(problem_of(196, 64), arch), Names{"portable_d64"}) << arch;
  }
  // Heads between two kernels' run in the wider one.
  EXPECT_EQ(plans_of(problem_of(196, 80), 90), (Names{"flash_d96_k96", "portable_d128"}));
  EXPECT_EQ(plans_of(problem_of(196, 40), 90).front(), "short_d64_k200");
  // Rows of e4m3 that the copy engine cannot store.
  AttentionProblem narrow = problem_of(196, 64);
  narrow.output = DType::kE4M3;
  narrow.o.row += 8;
  EXPECT_EQ(plans_of(narrow, 90), Names{"portable_d64"});
}

TEST(AttentionPlans, KernelsExistAndFitABlock) {
  for (const auto& levers : attention::kShortKernels) {
    EXPECT_LE(attention::shared_bytes(levers), 232448U);
  }
  for (const auto& levers : attention::kFlashKernels) {
    EXPECT_LE(attention::shared_bytes(levers), 232448U);
  }
  if (kernel_images().empty()) {
    GTEST_SKIP() << "built without the CUDA compiler";
  }
  for (const std::string type : {"bf16", "f16"}) {
    for (const auto& levers : attention::kShortKernels) {
      EXPECT_NE(
          find_kernel_image(
              fmt::format("attention_short_{}_d{}_k{}", type, levers.head_dim, levers.keys), 90),
          nullptr);
    }
    for (const auto& levers : attention::kFlashKernels) {
      EXPECT_NE(
          find_kernel_image(
              fmt::format("attention_flash_{}_d{}_k{}", type, levers.head_dim, levers.keys), 90),
          nullptr);
    }
    for (const int columns : attention::kPortableColumns) {
      for (const int arch : {80, 86, 89, 90, 100}) {
        EXPECT_NE(find_kernel_image(fmt::format("attention_portable_{}_d{}", type, columns), arch),
                  nullptr)
            << arch;
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
  EXPECT_EQ(level_of(attention_plan(problem, hopper)), AttentionLevel::kWgmma);
  for (const AttentionLevel level : {AttentionLevel::kMma, AttentionLevel::kWgmma}) {
    EXPECT_EQ(level_of(attention_plan(problem, hopper, level)), level);
  }
  EXPECT_THROW((void)attention_plan(problem, device_of(80), AttentionLevel::kWgmma), Error);
  AttentionProblem varlen = problem;
  varlen.varlen = true;
  EXPECT_EQ(level_of(attention_plan(varlen, hopper)), AttentionLevel::kMma);
  EXPECT_NE(can_run(varlen, hopper, AttentionLevel::kWgmma).find("varlen"), std::string::npos);
}

TEST(AttentionLevels, AreForcedByTheEnvironment) {
  const AttentionProblem problem = problem_of(196, 64);
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
  EXPECT_EQ(with("mma"), "portable_d64");
  EXPECT_EQ(with("wgmma"), "short_d64_k200");
  EXPECT_EQ(with(""), "short_d64_k200");
  EXPECT_NE(with("fast").find("scalar, wmma, mma, wgmma"), std::string::npos);
}

TEST(AttentionCanRun, SaysWhatIsWrong) {
  const auto reason = [](auto change, int arch = 90) {
    AttentionProblem problem = problem_of(196, 64);
    change(problem);
    const std::string text = can_run(problem, device_of(arch));
    EXPECT_EQ(attention_plans(problem, device_of(arch)).empty(), !text.empty());
    return text;
  };
  using Problem = AttentionProblem;
  EXPECT_EQ(reason([](Problem&) {}), "");
  EXPECT_NE(reason([](Problem& p) { p.keys = 0; }).find("empty"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.type = DType::kF32; }).find("bf16 or f16"),
            std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.output = DType::kF16; }).find("output"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.head_dim = 60; }).find("multiples of 8"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.head_dim = 136; }).find("up to 128"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.scale = 0.0; }).find("scale"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.q.row += 4; }).find("strides"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) {
              p.causal = true;
              p.keys = 100;
            }).find("see no key"),
            std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.kv_heads = 5; }).find("no multiple"), std::string::npos);
  EXPECT_EQ(reason([](Problem& p) { p.kv_heads = 4; }), "");
  EXPECT_NE(reason([](Problem& p) { p.batch = std::int64_t{1} << 31; }).find("too large"),
            std::string::npos);
  EXPECT_NE(reason([](Problem&) {}, 75).find("7.5"), std::string::npos);
  EXPECT_NE(reason([](Problem& p) { p.output = DType::kE4M3; }, 86).find("e4m3"),
            std::string::npos);
}

TEST(AttentionProblems, OfPackedProjections) {
  const AttentionProblem problem = problem_of(196, 64);
  EXPECT_EQ(problem.q.row, 3 * 768);
  EXPECT_EQ(problem.o.row, 768);
  const AttentionOperands operands = packed_operands(problem, 4096, 1 << 20);
  EXPECT_EQ(operands.k - operands.q, 768U * 2);
  EXPECT_EQ(operands.v - operands.k, 768U * 2);
  EXPECT_EQ(to_string(problem), "attention (2,12,196,64) bf16 -> bf16");
}

}  // namespace
}  // namespace fovea::gpu
