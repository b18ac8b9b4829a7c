// What users are told of operators that do not run as they might expect.
#include "gpu/launch/notes.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/bare_device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/gpu_executor.hpp"
#include "gpu/host_device.hpp"

namespace fovea::gpu {
namespace {

/// An Ampere GPU on which every kernel does nothing.
class IdleDevice final : public BareDevice {
 public:
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] Module load(std::span<const std::byte> /*image*/) override { return {}; }
  [[nodiscard]] Kernel find(Module /*module*/, std::string_view /*entry*/) override { return {}; }
  void launch(Kernel /*kernel*/, const LaunchConfig& /*config*/,
              std::span<const std::byte> /*params*/, Stream& /*stream*/) override {}

 private:
  DeviceInfo info_{.name = "a GPU",
                   .compute_major = 8,
                   .sm_count = 108,
                   .shared_bytes_per_block = std::size_t{163} << 10};
};

DeviceInfo device(int major) {
  return {
      .name = "a GPU", .compute_major = major, .sm_count = 132, .shared_bytes_per_block = 232448};
}

TEST(Notes, TellOfEachKindOfProductOnce) {
  if (kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  Notes notes;
  EXPECT_EQ(notes.take(), "");
  GemmProblem problem{.m = 196, .n = 20, .k = 64};
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  const std::string note = notes.take();
  EXPECT_NE(note.find("cuBLASLt computes gemm (196, 20)"), std::string::npos) << note;
  EXPECT_NE(note.find("multiples of 16"), std::string::npos) << note;
  problem.m = 392;
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  EXPECT_EQ(notes.take(), "");
  problem.n = 24;
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  problem.epilogue = GemmEpilogue::kGelu;
  notes.add(problem, can_run(problem, device(9)).why, device(9));
  const std::string more = notes.take();
  EXPECT_NE(more.find("; cuBLASLt computes gemm (392, 24) = gelu"), std::string::npos) << more;
}

TEST(Notes, TellEachTextOnce) {
  Notes notes;
  notes.add("attention runs at level mma");
  notes.add("attention runs at level wmma");
  notes.add("attention runs at level mma");
  EXPECT_EQ(notes.take(), "attention runs at level mma; attention runs at level wmma");
  notes.add("attention runs at level mma");
  EXPECT_EQ(notes.take(), "");
}

// On the way that a user's images take: executor, choice, record, note.
TEST(Notes, TellOfALevelThatMissedItsGate) {
  if (kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  const GateRecord record(
      {{.name = "mma", .seconds = 2e-5, .missed = "too slow"}, {.name = "wmma", .seconds = 1e-5}});
  IdleDevice idle;
  HostStream stream;
  KernelCache kernels(idle);
  Notes notes;
  CublasGemm cublas(idle, notes);
  Planner planner(idle.info(), record);
  GpuExecutor executor({idle, kernels, planner, cublas, notes}, &stream, {}, nullptr);
  const ops::AttentionProblem problem = ops::packed_attention(1, 196, 2, 64, 0.125, DType::kBF16);
  std::vector<double> memory(196 * 3 * 128);
  const TensorView qkv{memory.data(), DType::kBF16, {196, 3 * 128}};
  const TensorView output{memory.data(), DType::kBF16, {196, 128}};
  executor.run(ops::packed_attention_call(problem, qkv, output));
  EXPECT_EQ(notes.take(),
            "attention runs at level wmma, not mma, which missed its gates on a GPU: too slow");
  // Neither again, nor of another model, which has a planner and notes of its own.
  executor.run(ops::packed_attention_call(problem, qkv, output));
  Notes others;
  Planner another(idle.info(), record);
  GpuExecutor({idle, kernels, another, cublas, others}, &stream, {}, nullptr)
      .run(ops::packed_attention_call(problem, qkv, output));
  EXPECT_EQ(notes.take() + others.take(), "");
}

// There every product is cuBLASLt's, as the documents say.
TEST(Notes, AreNoNewsOnGpusWithoutKernelsForProducts) {
  Notes notes;
  notes.add({.m = 196, .n = 20, .k = 64}, "why", device(8));
  notes.add({.m = 196, .n = 768, .k = 768}, "why", device(8));
  EXPECT_EQ(notes.take(), "");
}

}  // namespace
}  // namespace fovea::gpu
