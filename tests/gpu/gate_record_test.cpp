// Records of profile gates: what is read of them, and that they change which kernel runs.
#include "gpu/launch/gate_record.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/planner.hpp"

namespace fovea::gpu {
namespace {

constexpr std::string_view kRecord = R"({"kind": "gates", "version": 1,
  "machine": {"gpu": {"name": "GPU A"}},
  "levels": [
    {"card": "attention", "case": "c", "level": "mma", "kernel": "attention_x", "passed": false,
     "seconds": 2e-5, "gates": [
       {"figure": "registers", "passed": true, "words": "64 registers"},
       {"figure": "matrix_units", "passed": false, "words": "matrix units 8.8%, 40% asked"}]},
    {"card": "attention", "case": "c", "level": "wmma", "kernel": "attention_y", "passed": true,
     "seconds": 1e-5, "gates": []},
    {"card": "gemm_out", "case": "m", "level": "", "kernel": "gemm_z", "passed": true,
     "gates": []}]})";

DeviceInfo ampere(const std::string& name) {
  return {.name = name,
          .compute_major = 8,
          .sm_count = 108,
          .shared_bytes_per_block = std::size_t{163} << 10};
}

std::string why(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(GateRecord, IsReadForItsGpuAlone) {
  const std::vector<GateEntry> entries = read_gate_record(kRecord, "GPU A", "here");
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].name, "mma");
  EXPECT_EQ(entries[0].missed, "matrix units 8.8%, 40% asked");
  EXPECT_EQ(entries[0].seconds, 2e-5);
  EXPECT_EQ(entries[1].missed, "");
  EXPECT_EQ(entries[2].name, "gemm_z");
  EXPECT_TRUE(read_gate_record(kRecord, "GPU B", "here").empty());
  for (const std::string_view wrong : {"", "{", "[]", "{\"kind\": \"gates\", \"version\": 2}",
                                       "{\"kind\": \"gates\", \"version\": 1}"}) {
    EXPECT_EQ(why([&] { (void)read_gate_record(wrong, "GPU A", "here"); }).substr(0, 6), "here: ");
  }
}

// The whole way: variable, file, choice; with the notice once per process.
TEST(GateRecord, OfAFileChangesTheChoice) {
  if (kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  const std::string path = testing::TempDir() + fmt::format("fovea-gate-record-{}", ::getpid());
  // Of a model of GPU that no other test asks for: a process reads the record of each once.
  static int repeats = 0;
  const std::string gpu = fmt::format("GPU A{}", repeats++);
  std::string of_gpu(kRecord);
  of_gpu.replace(of_gpu.find("GPU A"), 5, gpu);
  std::ofstream(path) << of_gpu;
  setenv("FOVEA_GATE_RECORD", path.c_str(), 1);
  const DeviceInfo device = ampere(gpu);
  const ops::AttentionProblem problem = ops::packed_attention(2, 196, 12, 64, 0.125, DType::kBF16);
  Planner planner(device);
  const AttentionChoice choice = planner.attention(problem);
  EXPECT_EQ(plan_level(choice.plan), AttentionLevel::kWmma);
  EXPECT_EQ(planner.news(choice.notice),
            "attention runs at level wmma, not mma, which missed its gates on " + gpu +
                ": matrix units 8.8%, 40% asked");
  EXPECT_EQ(planner.news(choice.notice), "");
  EXPECT_EQ(Planner(device).news(choice.notice), "");
  EXPECT_NE(why([] { (void)gate_record(ampere("GPU B")); }).find("there is no record of"),
            std::string::npos);
  setenv("FOVEA_GATE_RECORD", "/nowhere/at/all", 1);
  EXPECT_NE(why([] { (void)gate_record(ampere("GPU C")); }).find("cannot open the file"),
            std::string::npos);
  setenv("FOVEA_GATE_RECORD", "none", 1);
  EXPECT_EQ(plan_level(attention_plan(problem, ampere("GPU D"))), AttentionLevel::kMma);
  unsetenv("FOVEA_GATE_RECORD");
  std::filesystem::remove(path);
}

// What is committed: of an H200 the level wmma missed the gate of its matrix units, which is not
// chosen there anyway, and stays before the slower one; of other GPUs nothing is on record.
TEST(GateRecord, IsBuiltIn) {
  unsetenv("FOVEA_GATE_RECORD");
  const GateRecord& record = gate_record(ampere("NVIDIA H200"));
  EXPECT_NE(record.missed("wmma").find("matrix_units"), std::string_view::npos);
  const std::vector<std::string_view> levels = {"wgmma", "mma", "wmma", "scalar"};
  EXPECT_EQ(record.choose(levels), 0);
  EXPECT_EQ(record.choose(std::span(levels).subspan(2)), 0) << "scalar is slower than wmma";
  for (const std::string_view level : {"scalar", "wmma", "mma", "wgmma"}) {
    EXPECT_EQ(gate_record(ampere("a GPU")).missed(level), "");
  }
}

TEST(GateRecord, TakesAKernelOfMatrixProductsOutOfTheChoice) {
  DeviceInfo device = ampere("a GPU");
  device.compute_major = 9;
  device.sm_count = 132;
  device.shared_bytes_per_block = 232448;
  const GemmProblem problem{.m = 4096, .n = 768, .k = 768};
  const std::vector<GemmPlan> plans = gemm_plans(problem, device);
  if (plans.size() < 2) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  const auto name = [&](std::size_t i) { return std::string(info_of(plans[i].kernel).name); };
  const auto entry = [&](std::size_t plan, const std::string& case_name, double seconds,
                         const std::string& missed) {
    return GateEntry{.card = "gemm_out",
                     .case_name = case_name,
                     .name = name(plan),
                     .seconds = seconds,
                     .missed = missed};
  };
  const GateEntry missed = entry(0, "m", 2e-5, "too slow");
  const GateRecord record({missed, entry(1, "m", 1e-5, "")});
  const GemmChoice choice = choose_gemm(problem, device, record);
  EXPECT_EQ(choice.plan, plans[1]);
  EXPECT_NE(choice.notice.find(name(0) + ", which missed its gates on a GPU: too slow"),
            std::string::npos)
      << choice.notice;
  // One that nothing is known of where the first missed a gate is no better.
  GateEntry of_another_card = entry(1, "m", 1e-5, "");
  of_another_card.card = "gemm_fc2";
  for (const std::vector<GateEntry>& entries : std::vector<std::vector<GateEntry>>{
           {missed},
           {missed, entry(1, "another", 1e-5, "")},
           {missed, of_another_card},
           {missed, entry(1, "m", 0.0, "")},
           {missed, entry(1, "m", 3e-5, "")},
           {missed, entry(1, "m", 1e-5, "waits")},
           {missed, entry(1, "m", 1e-5, ""), entry(0, "n", 2e-5, "too slow")},
           {missed, entry(1, "m", 1e-5, ""), entry(0, "n", 2e-5, ""), entry(1, "n", 3e-5, "")}}) {
    const GateRecord other(entries);
    EXPECT_EQ(choose_gemm(problem, device, other).plan, plans[0]);
    EXPECT_EQ(choose_gemm(problem, device, other).notice, "");
  }
  const GateRecord faster_there_too(
      {missed, entry(1, "m", 1e-5, ""), entry(0, "n", 2e-5, ""), entry(1, "n", 1e-5, "")});
  EXPECT_EQ(choose_gemm(problem, device, faster_there_too).plan, plans[1]);
}

}  // namespace
}  // namespace fovea::gpu
