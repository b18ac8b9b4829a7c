// Candidates' gates that need no GPU, and problems that no card lists.
#include "lab/evolve/candidate.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpu/device/kernel_image.hpp"
#include "gpu/host_device.hpp"
#include "lab/check/judge.hpp"
#include "lab/check/placement.hpp"

namespace fovea::lab {
namespace {

const Card& card_named(const std::string& name) {
  return *find_cards(std::vector{name}).front();
}

/// Encodes nothing, and runs nothing.
class PlannedDevice final : public gpu::HostDevice {
 public:
  [[nodiscard]] const gpu::DeviceInfo& info() const override { return info_; }
  [[nodiscard]] TensorMap encode(const gpu::TensorMapDesc& /*desc*/) override { return {}; }

 private:
  gpu::DeviceInfo info_ = assumed_device();
};

CandidateTrials wmma_trials(const KernelSources& sources = KernelSources::built_in()) {
  return {nullptr,
          sources,
          {.card = &card_named("attention"), .case_name = "batch=2,heads=8", .level = "wmma"}};
}

TEST(Candidate, IsRefusedBeforeItIsCompiled) {
  CandidateTrials trials = wmma_trials();
  const auto refused = [&](const CandidateSpec& spec) {
    const CandidateResult result = trials.run(spec);
    EXPECT_EQ(result.valid, false);
    EXPECT_EQ(result.failed_at, CandidateGate::kLegal);
    EXPECT_EQ(result.compiler, "");
    return result.reason;
  };
  EXPECT_EQ(refused({.changes = {{"warps", 3}}}),
            "warps = 3 is not in the table of values: 1, 2, 4, 8");
  EXPECT_EQ(refused({.changes = {{"score_keys", 48}, {"kv_tile", 32}}}),
            "a block of 32 keys is not a multiple of 48 keys per part");
  EXPECT_EQ(refused({.kernel = "attention_online_bf16_d128_k128", .changes = {}}),
            "attention_online_bf16_d128_k128 does not support "
            "attention (2,8,196,64) bf16, packed");
  // The question itself is wrong.
  EXPECT_THROW((void)trials.run({.changes = {{"warp", 4}}}), Error);
  EXPECT_THROW((void)trials.run({.kernel = "no_such_kernel"}), Error);
  EXPECT_THROW((CandidateTrials(nullptr, KernelSources::built_in(),
                                {.card = &card_named("attention"), .level = "fast"})),
               Error);
}

TEST(Candidate, NeedsNoMoreSharedMemoryThanACtaHas) {
  CandidateTrials trials(
      nullptr, KernelSources::built_in(),
      {.card = &card_named("attention"), .case_name = "batch=20", .level = "wgmma"});
  const CandidateResult result = trials.run({.changes = {{"key_slots", 8}}});
  EXPECT_EQ(result.failed_at, CandidateGate::kLegal);
  EXPECT_NE(result.reason.find("bytes of shared memory, but a CTA has only 232448"),
            std::string::npos)
      << result.reason;
}

TEST(Candidate, PassesTheGatesOfTheCompilerOrSaysWhyNot) {
  const std::map<std::string, int> kEight = {{"ctas_per_sm", 8}, {"warps", 4},
                                             {"kv_tile", 32},    {"stages", 3},
                                             {"score_keys", 16}, {"held_queries", 0}};
  CandidateTrials trials = wmma_trials();
  CandidateResult legal;
  try {
    legal = trials.run({.changes = kEight});
  } catch (const Error& error) {
    if (!std::string_view(error.what()).starts_with("there is no compiler")) {
      throw;
    }
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(legal.valid, std::nullopt) << legal.reason;
  EXPECT_EQ(legal.shared_bytes, 32768U);  // (64 queries + 2 x 3 x 32 keys) x 64 x 2 bytes
  EXPECT_GT(legal.registers, 0);
  EXPECT_LE(legal.registers, 64);
  EXPECT_EQ(legal.spill_bytes, 0);
  const auto json = nlohmann::json::parse(to_json(legal));
  EXPECT_EQ(json["change"]["stages"], 3);
  EXPECT_EQ(json["parameters"]["stages"], 3);
  EXPECT_TRUE(json["valid"].is_null() && json["failed_at"].is_null());
  EXPECT_TRUE(json["seconds"].is_null() && json["speed_up"].is_null() && json["verdict"].is_null());
  EXPECT_NE(json["untimed"].get<std::string>().find("no GPU"), std::string::npos);

  const CandidateResult spilling = trials.run({.changes = {{"ctas_per_sm", 8},
                                                           {"warps", 4},
                                                           {"kv_tile", 128},
                                                           {"score_keys", 128},
                                                           {"held_queries", 1}}});
  EXPECT_EQ(spilling.failed_at, CandidateGate::kResources) << spilling.reason;
  EXPECT_GT(spilling.spill_bytes, 0);

  const CandidateResult broken = trials.run({.source = "this is no C++\n"});
  EXPECT_EQ(broken.failed_at, CandidateGate::kCompile);
  const auto unknown = nlohmann::json::parse(to_json(broken));
  EXPECT_TRUE(unknown["registers"].is_null() && unknown["compile_seconds"].is_null());
  const CandidateResult without_entry =
      trials.run({.source = "inline int other() { return 1; }\n"});
  EXPECT_EQ(without_entry.failed_at, CandidateGate::kCompile) << without_entry.reason;
  EXPECT_NE(broken.reason.find("error"), std::string::npos) << broken.reason;
  EXPECT_EQ(broken.reason.find("/tmp"), std::string::npos) << "differs each time";
  EXPECT_EQ(broken.sources, std::vector<std::string>{"kernels/attention/mma_small.cuh"});
}

// The program's own kernels can be made, and what their designs cannot do is named.
TEST(TunedPlans, FollowTheRulesOfTheirDesigns) {
  const gpu::DeviceInfo device = assumed_device();
  const std::unique_ptr<Workload> workload =
      find_case(card_named("gemm_qkv_bf16"), "m=333,n=2304,k=768").make(1);
  const auto why = [&](const char* kernel, const std::map<std::string, int>& changes) {
    ParameterValues values = KernelSources::built_in().kernel(kernel).values;
    for (auto& [name, value] : values) {
      value = changes.contains(name) ? changes.at(name) : value;
    }
    return workload->tuned(device, kernel_named(kernel), values).support.why;
  };
  int ours = 0;
  for (const gpu::KernelInfo& kernel : gpu::kernels()) {
    if (kernel.name.find("_bf16_bias_bf16_") != std::string_view::npos) {
      EXPECT_EQ(why(std::string(kernel.name).c_str(), {}), "") << kernel.name;
      ++ours;
    }
  }
  EXPECT_GT(ours, 5);
  constexpr const char* kCooperative = "gemm_sm90_cooperative_bf16_bias_bf16_1x64_v8";
  constexpr const char* kPingPong = "gemm_sm90_ping_pong_bf16_bias_bf16_2x192_v8";
  EXPECT_EQ(why(kCooperative, {{"stages", 5}, {"columns", 96}, {"raster", 8}}), "");
  EXPECT_NE(why(kCooperative, {{"columns", 48}}).find("expected a multiple of 32"),
            std::string::npos);
  EXPECT_NE(why(kCooperative, {{"vector", 16}}).find("at most 8 columns at once"),
            std::string::npos);
  EXPECT_NE(why(kPingPong, {{"stages", 10}}).find("bytes of shared memory"), std::string::npos);
  EXPECT_NE(
      why("gemm_sm90_cooperative_bf16_gelu_bf16_1x64_v8", {}).find("does not compute this problem"),
      std::string::npos);
  const auto can_be_made = [&](const auto& variants) {
    for (const auto& variant : variants) {
      EXPECT_EQ(gpu::can_be_made(&variant, device).why, "") << gpu::info_of(variant.bf16).name;
    }
  };
  can_be_made(gpu::kSinglePassVariants);
  can_be_made(gpu::kOnlineVariants);
  can_be_made(gpu::kMmaVariants);
  can_be_made(gpu::kMmaSmallVariants);
  can_be_made(gpu::kScalarVariants);
}

// What is said without a device is what the launcher does on one.
TEST(Candidate, TakesTheCtaThatIsLaunched) {
  PlannedDevice device;
  for (const auto& [card, kernel, fields] :
       {std::tuple{"attention", "attention_mma_small_f16_d64",
                   "batch=2,heads=8,length=77,type=f16"},
        {"attention", "attention_mma_bf16_d64_r64_k80", "batch=2,heads=8,length=77"},
        {"attention", "attention_scalar_bf16_d64_s2", "batch=2,heads=8,length=77"},
        {"attention", "attention_online_bf16_d64_k160", "batch=2,heads=8,length=777"},
        {"gemm_qkv_bf16", "gemm_sm90_cooperative_bf16_bias_bf16_1x64_v8", "m=77"},
        {"gemm_qkv_bf16", "gemm_sm90_ping_pong_bf16_bias_bf16_2x192_v8", "m=77"}}) {
    const std::unique_ptr<Workload> workload = find_case(card_named(card), fields).make(1);
    const TunedPlan tuned = workload->tuned(device.info(), kernel_named(kernel),
                                            KernelSources::built_in().kernel(kernel).values);
    ASSERT_TRUE(tuned.support) << kernel << ": " << tuned.support.why;
    const std::unique_ptr<gpu::Stream> stream = device.make_stream();
    Placement placement(device, *workload, *stream);
    const gpu::LaunchConfig config =
        workload->launches(device, placement.operands(), tuned.plan).front().config;
    EXPECT_EQ(config.dynamic_shared_bytes, tuned.cta.dynamic_shared_bytes) << kernel;
    EXPECT_EQ(static_cast<int>(config.block.x), tuned.cta.threads) << kernel;
    EXPECT_GT(tuned.cta.dynamic_shared_bytes, 0U) << kernel;
  }
}

TEST(Problem, HasTheFieldsOfItsCardAndNoOthers) {
  const auto said = [](const char* card, const char* fields) -> std::string {
    try {
      return find_case(card_named(card), fields).make(1)->describe();
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(said("gemm_qkv_bf16", "m=99,k=1152"),
            "gemm (99, 2304) = bias(bf16 x bf16), K 1152, bf16");
  EXPECT_EQ(said("gemm_qkv_bf16", "m=99,k=1150"),
            "the problem's k = 1150 is not a multiple of 16 from 16 to 65536");
  EXPECT_EQ(said("gemm_qkv_bf16", "m=0"),
            "the problem's m = 0 is not a whole number from 1 to 4194304");
  EXPECT_EQ(said("gemm_qkv_bf16", "m=9x"),
            "the problem's m = 9x is not a whole number from 1 to 4194304");
  EXPECT_EQ(said("gemm_qkv_bf16", "m=99,rows=3"),
            "problems of gemm_qkv_bf16 have no field 'rows'; there are: m, n, k");
  EXPECT_EQ(said("gemm_qkv_bf16", "m=99,m=98"), "the problem sets m twice");
  EXPECT_NE(said("gemm_qkv_bf16", "m=99,=").find("name=value"), std::string::npos);
  EXPECT_NE(said("gemm_qkv_bf16", "m=4194304,n=65536").find("too large"), std::string::npos);
  EXPECT_NE(said("attention", "type=f32").find("is not one of: bf16, f16"), std::string::npos);
  EXPECT_NE(said("attention", "heads=6,kv_heads=4").find("not a multiple of its 4 heads of keys"),
            std::string::npos);
}

// Judges as with the cards' own cases: the right results pass, and mistakes do not, whatever the
// sizes.
TEST(Problem, IsJudgedAsTheCardsOwnCasesAre) {
  for (const auto& [name, fields] :
       {std::pair{"gemm_qkv_bf16", "m=131,n=1728,k=48"},
        {"patch_embed_u8", "m=77,n=48,k=80,tokens=7"},
        {"gemm_out_bf16", "m=65,n=16,k=32"},
        {"attention", "batch=1,heads=3,length=77,width=40"},
        {"attention", "batch=2,heads=4,kv_heads=2,queries=33,keys=129,width=64,type=f16"},
        {"attention_long", "batch=1,heads=1,queries=65,keys=130,width=128,causal=1"},
        {"layer_norm", "rows=17,width=1032"},
        {"row_norm", "rows=33,width=72"},
        {"pool", "images=17,tokens=19,heads=2,hidden=32,mlp=48"},
        {"pixels_widen", "rows=5,width=13"},
        {"pixels_repeat", "rows=3,width=24"}}) {
    const Card& card = card_named(name);
    const Case card_case = find_case(card, fields);
    SCOPED_TRACE(std::string(name) + ": " + fields);
    EXPECT_EQ(card_case.name, fields);
    ASSERT_TRUE(card_case.mutants);
    const std::unique_ptr<Workload> workload = card_case.make(1);
    const OutputSpec output = workload->output();
    std::vector<TileValues> values =
        expectations(*workload, sample_tiles(output.rows, output.columns, 6, 1));
    fill_emulated(*workload, values);
    EXPECT_EQ(judge(values, card.tolerance).reason, "");
    for (const Mutant& mutant : workload->mutants()) {
      fill_emulated(*mutant.workload, values);
      EXPECT_FALSE(judge(values, card.tolerance).passes()) << mutant.name;
    }
  }
}

TEST(Problem, OfOneRowOrKeyHasNoMutantsThatCouldNotShow) {
  EXPECT_FALSE(find_case(card_named("gemm_qkv_bf16"), "m=1").mutants);
  EXPECT_FALSE(find_case(card_named("attention"), "length=1").mutants);
}

}  // namespace
}  // namespace fovea::lab
