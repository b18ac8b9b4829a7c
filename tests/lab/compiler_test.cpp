// Compiling kernels at run time, by whichever compiler is here.
#include "lab/system/compiler.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/machine_code.hpp"
#include "lab/code/resources.hpp"
#include "lab/system/kernel_sources.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

using gpu::KernelId;

constexpr KernelId kGemm = KernelId::gemm_sm90_cooperative_bf16_bias_bf16_1x64_v8;
constexpr KernelId kSmall = KernelId::attention_mma_small_f16_d64;

const ParameterValues& values_of(KernelId kernel) {
  return KernelSources::built_in().kernel(gpu::info_of(kernel).name).values;
}

ParameterValues changed(ParameterValues values, std::string_view name, int value) {
  for (auto& [parameter, held] : values) {
    held = parameter == name ? value : held;
  }
  return values;
}

TEST(KernelSources, HaveEveryKernelItsFilesAndItsParameters) {
  const KernelSources& sources = KernelSources::built_in();
  for (const gpu::KernelInfo& info : gpu::kernels()) {
    const KernelEntry& entry = sources.kernel(info.name);
    EXPECT_EQ(entry.source, info.source);
    for (const std::string& include : entry.includes) {
      EXPECT_TRUE(sources.files().contains("kernels/" + include)) << include;
    }
    for (const ParameterRange& range : sources.parameters(entry.family)) {
      const int value = value_of(entry.values, range.name);
      EXPECT_NE(std::ranges::find(range.values, value), range.values.end())
          << info.name << ' ' << range.name;
    }
    const std::string unit = sources.unit(info.name, entry.values);
    EXPECT_EQ(unit.find('$'), std::string::npos) << unit;
    EXPECT_NE(unit.find(info.name), std::string::npos);
  }
  EXPECT_THROW((void)sources.kernel("no_such_kernel"), Error);
  EXPECT_THROW((void)value_of(values_of(kGemm), "no_such_parameter"), Error);
}

TEST(KernelSources, TellWhichParametersDiffer) {
  const ParameterValues& base = values_of(kGemm);
  EXPECT_EQ(differences(base, base), "");
  EXPECT_EQ(differences(changed(changed(base, "stages", 3), "columns", 96), base),
            "columns 96, stages 3");
}

class CompilerTest : public testing::TestWithParam<CompilerKind> {
 protected:
  void SetUp() override {
    options_.compiler = GetParam();
    try {
      (void)compile(sources_, KernelId::peer_add, {}, options_);
    } catch (const Error& error) {
      if (!std::string_view(error.what()).starts_with("there is no compiler")) {
        throw;
      }
      GTEST_SKIP() << error.what();
    }
  }
  KernelSources sources_ = KernelSources::built_in();
  CompileOptions options_;
};

TEST_P(CompilerTest, GivesMachineCodeAndItsResources) {
  for (const KernelId kernel : {kGemm, kSmall, KernelId::pool_mean, KernelId::layer_norm_bf16_3}) {
    const CompiledKernel compiled = compile(sources_, kernel, values_of(kernel), options_);
    EXPECT_FALSE(kernel_instructions(compiled.cubin, gpu::info_of(kernel).name).empty());
    EXPECT_EQ(gpu::unpack(compiled.image), compiled.cubin);
    EXPECT_GT(compiled.image.registers, 16);
    EXPECT_EQ(compiled.image.spill_store_bytes + compiled.image.spill_load_bytes, 0);
    // The build compiled them to the same, where it had a compiler.
    if (const gpu::KernelImage* const built = gpu::find_kernel_image(kernel, 90)) {
      EXPECT_NEAR(compiled.image.registers, built->registers, 8) << built->name;
      EXPECT_EQ(compiled.image.shared_bytes, built->shared_bytes) << built->name;
    }
  }
}

TEST_P(CompilerTest, TakesOtherTuningParameters) {
  const auto registers = [&](const ParameterValues& values) {
    return compile(sources_, kSmall, values, options_).image.registers;
  };
  const ParameterValues four = changed(changed(values_of(kSmall), "warps", 4), "stages", 2);
  const ParameterValues values =
      changed(changed(changed(four, "ctas_per_sm", 8), "kv_tile", 32), "score_keys", 16);
  const ParameterValues held =
      changed(changed(changed(changed(four, "ctas_per_sm", 2), "held_queries", 1), "kv_tile", 64),
              "score_keys", 64);
  EXPECT_LE(registers(values), 64);
  EXPECT_GT(registers(held), 96);
}

TEST_P(CompilerTest, RefusesInTheCompilersWords) {
  sources_.set_file("kernels/lab/add.cu", "this is no C++");
  try {
    (void)compile(sources_, KernelId::peer_add, {}, options_);
    FAIL() << "it compiled";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("error"), std::string::npos) << error.what();
  }
  // A combination that the kernel itself refuses.
  EXPECT_THROW((void)compile(KernelSources::built_in(), kSmall,
                             changed(values_of(kSmall), "stages", 1), options_),
               CompileError);
}

INSTANTIATE_TEST_SUITE_P(Both, CompilerTest,
                         testing::Values(CompilerKind::kNvrtc, CompilerKind::kNvcc),
                         [](const auto& known) {
                           return known.param == CompilerKind::kNvcc ? "Nvcc" : "Nvrtc";
                         });

TEST(Compiler, SourcesOfAFolderTakeThePlaceOfTheProgramsOwn) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("fovea-sources-{}", getpid());
  fs::create_directories(folder / "kernels/lab");
  std::ofstream(folder / "kernels/lab/add.cu") << "// mine\n";
  const KernelSources sources = KernelSources::from_folder(folder.string());
  EXPECT_EQ(sources.files().at("kernels/lab/add.cu"), "// mine\n");
  EXPECT_EQ(sources.files().size(), KernelSources::built_in().files().size());
  fs::remove_all(folder);
  EXPECT_THROW((void)KernelSources::from_folder(folder.string()), Error);
}

TEST(Compiler, ReadsWhatPtxasSaid) {
  gpu::KernelImage image;
  image.name = "x";
  read_resources(
      "ptxas info    : Function properties for x\n"
      "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 1 barriers, 1024 bytes smem\n",
      image);
  EXPECT_EQ(image.registers, 64);
  EXPECT_EQ(image.shared_bytes, 1024);
  EXPECT_EQ(image.stack_bytes, 8);
  EXPECT_EQ(image.spill_store_bytes, 12);
  EXPECT_EQ(image.spill_load_bytes, 16);
  EXPECT_THROW(read_resources("", image), Error);
}

TEST(Compiler, TargetsAreThoseOfTheKernel) {
  EXPECT_EQ(compile_target(kGemm, 90), "sm_90a");
  EXPECT_EQ(compile_target(KernelId::pool_mean, 90), "sm_90");
  EXPECT_EQ(compile_target(KernelId::pool_mean, 89), "sm_80");
  EXPECT_THROW((void)compile_target(kGemm, 80), Error);
}

}  // namespace
}  // namespace fovea::lab
