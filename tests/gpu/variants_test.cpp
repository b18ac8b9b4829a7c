// The list of kernels: every one is in a plan, and runs as its machine code allows.
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/bare_device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/norm.hpp"
#include "gpu/launch/pixels.hpp"
#include "gpu/launch/pool.hpp"
#include "gpu/launch/search.hpp"
#include "ops/convert/gpu.hpp"

namespace fovea::gpu {
namespace {

DeviceInfo variants_device(int arch) {
  DeviceInfo info;
  info.name = "made up";
  info.compute_major = arch / 10;
  info.compute_minor = arch % 10;
  info.sm_count = 132;
  info.shared_bytes_per_block = 232448;
  return info;
}

/// Makes launches, and notes what is launched.
class NotingDevice final : public BareDevice {
 public:
  explicit NotingDevice(int arch) : info_(variants_device(arch)) {}
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] TensorMap encode(const TensorMapDesc& /*desc*/) override { return {}; }
  [[nodiscard]] Module load(std::span<const std::byte> image) override {
    EXPECT_FALSE(image.empty());
    ++loads;
    return {};
  }
  [[nodiscard]] Kernel find(Module /*module*/, std::string_view /*entry*/) override { return {}; }
  void launch(Kernel /*kernel*/, const LaunchConfig& config, std::span<const std::byte> /*params*/,
              Stream& /*stream*/) override {
    dependent = config.dependent;
  }

  bool dependent = false;
  int loads = 0;

 private:
  DeviceInfo info_;
};

class NoStream final : public Stream {
 public:
  void synchronize() override {}
  void wait_for(const Event& /*event*/) override {}
};

class Variants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
};

std::set<KernelId> in_gemm_plans(int arch) {
  std::set<KernelId> found;
  for (const auto& [a, b] : {std::pair(DType::kBF16, DType::kBF16),
                             {DType::kE4M3, DType::kE4M3},
                             {DType::kI8, DType::kI8},
                             {DType::kU8, DType::kI8},
                             {DType::kMXFP8, DType::kMXFP8}}) {
    for (const DType output : {DType::kBF16, DType::kE4M3, DType::kI8, DType::kMXFP8}) {
      for (const GemmEpilogue epilogue : {GemmEpilogue::kBias, GemmEpilogue::kGelu,
                                          GemmEpilogue::kResidual, GemmEpilogue::kPosition}) {
        for (const bool row_norm : {false, true}) {
          for (const std::int64_t n : {48, 768}) {
            for (const std::int64_t k : {768, 1152}) {
              for (const GemmPlan& plan : gemm_plans({.m = 200704,
                                                      .n = n,
                                                      .k = k,
                                                      .a = a,
                                                      .b = b,
                                                      .output = output,
                                                      .epilogue = epilogue,
                                                      .row_norm = row_norm,
                                                      .tokens = 196},
                                                     variants_device(arch))) {
                found.insert(plan.kernel);
              }
            }
          }
        }
      }
    }
  }
  return found;
}

std::set<KernelId> in_attention_plans(std::initializer_list<int> archs) {
  std::set<KernelId> found;
  for (const int arch : archs) {
    for (std::int64_t head_dim = 32; head_dim <= 128; head_dim += 8) {
      for (const std::int64_t tokens : {196, 256, 4096}) {
        for (const DType type : {DType::kBF16, DType::kF16}) {
          const ops::AttentionProblem problem =
              ops::packed_attention(4, tokens, 12, head_dim, 0.1, type);
          for (const AttentionPlan& plan : attention_plans(problem, variants_device(arch))) {
            found.insert(kernel_of(plan, type));
          }
        }
      }
    }
  }
  return found;
}

/// Row norms are for those products alone that normalise rows.
std::set<KernelId> in_other_launches(int arch) {
  NotingDevice device(arch);
  constexpr DevicePtr kSomewhere = 4096;
  std::set<KernelId> found;
  for (const std::int64_t width : {768, 1152, 2048}) {
    for (const DType input : {DType::kBF16, DType::kF32}) {
      found.insert(
          layer_norm_launch(device, {.rows = 5, .width = width, .input = input}, {}).kernel);
    }
    if (arch == 100) {
      const ops::LayerNormProblem blocks{
          .rows = 5, .width = width, .input = DType::kBF16, .output = DType::kMXFP8};
      found.insert(layer_norm_launch(device, blocks, {}).kernel);
    }
    if (arch == 90 || arch == 100) {
      found.insert(row_norm_launch(device, {.rows = 5, .width = width}, {}).kernel);
    }
  }
  for (const std::int64_t images : {1, 1024}) {
    for (const std::int64_t hidden : {768, 1536}) {
      for (const std::int64_t mlp : {3072, 144}) {
        for (const Launch& launch : pool_launches(device,
                                                  {.images = images,
                                                   .tokens = 196,
                                                   .heads = 12,
                                                   .hidden = hidden,
                                                   .mlp = mlp,
                                                   .input = DType::kBF16},
                                                  {})) {
          found.insert(launch.kernel);
        }
      }
    }
  }
  found.insert(pixels_launch(device.info(), kSomewhere, kSomewhere, 1, 16, 16).kernel);
  for (const auto& [input, output] :
       {std::pair(DType::kBF16, DType::kF16), std::pair(DType::kBF16, DType::kF32),
        std::pair(DType::kF32, DType::kF16)}) {
    found.insert(convert_launch(device.info(),
                                {.rows = 1, .width = 8, .input = input, .output = output},
                                kSomewhere, kSomewhere)
                     .kernel);
  }
  found.insert(repeat_launch(device.info(), kSomewhere, kSomewhere, 16, 1).kernel);
  found.insert(positions_launch(device.info(), {.images = 1, .rows = 1, .side = 1, .width = 8},
                                kSomewhere, {}, kSomewhere)
                   .kernel);
  for (const std::int64_t queries : {1, 16, 256}) {
    found.insert(plan_scan({.rows = 64, .stride = 64, .queries = queries}, device.info()).kernel);
  }
  found.insert(pick_launch(device.info(),
                           {.tiles = 1, .queries = 1, .rank = 1, .skip = 0, .capacity = 8},
                           kSomewhere, kSomewhere)
                   .kernel);
  found.insert(bounds_launch(device.info(), {.count = 64, .stride = 64}, 1, {}).kernel);
  return found;
}

TEST_F(Variants, EveryKernelOfTheProductIsInAPlan) {
  std::set<KernelId> planned = in_gemm_plans(90);
  planned.merge(in_gemm_plans(100));
  planned.merge(in_attention_plans({80, 90, 100}));
  planned.merge(in_other_launches(90));
  planned.merge(in_other_launches(100));
  std::set<KernelId> carried;
  for (const KernelImage& image : product_kernel_images()) {
    carried.insert(image.kernel);
    EXPECT_TRUE(planned.contains(image.kernel)) << image.name << " is in no plan";
    EXPECT_FALSE(info_of(image.kernel).lab) << image.name;
  }
  for (const KernelId kernel : planned) {
    EXPECT_TRUE(carried.contains(kernel)) << info_of(kernel).name << " is planned and not carried";
  }
}

// Later GPUs have PTX of all that is planned for them, and none that is not.
TEST_F(Variants, EveryPtxIsInAPlan) {
  constexpr int kLater = 120;
  std::set<KernelId> planned = in_attention_plans({kLater});
  planned.merge(in_other_launches(kLater));
  std::set<KernelId> carried;
  for (const KernelImage& image : ptx_images()) {
    carried.insert(image.kernel);
    const std::vector<std::byte> text = unpack(image);
    EXPECT_EQ(text.back(), std::byte{0}) << image.name;
    EXPECT_EQ(find_kernel_image(image.kernel, kLater), &image) << image.name;
  }
  EXPECT_EQ(planned, carried);
}

// Code for sm_80 does not wait for the grid before it, and runs on all of 8.x.
TEST_F(Variants, GridsStartEarlyOnlyWhereTheirCodeWaits) {
  for (const int arch : {80, 86, 89, 90, 100, 103, 120}) {
    NotingDevice device(arch);
    KernelCache kernels(device);
    NoStream stream;
    for (const bool dependent : {false, true}) {
      Launch launch = layer_norm_launch(device, {.rows = 5, .width = 768}, {});
      launch.config.dependent = dependent;
      kernels.run(launch, stream);
      EXPECT_EQ(device.dependent, dependent && arch >= 90) << arch;
    }
    EXPECT_EQ(device.loads, 1) << "machine code is loaded once";
  }
}

TEST_F(Variants, KernelsOfAUnitAreLoadedTogether) {
  NotingDevice device(90);
  KernelCache kernels(device);
  (void)kernels.get(KernelId::gemm_sm90_cooperative_bf16_bias_bf16_2x256_v8);
  (void)kernels.get(KernelId::gemm_sm90_cooperative_bf16_bias_bf16_2x128_v8);
  EXPECT_EQ(device.loads, 1);
}

TEST(KernelList, NamesAreThoseOfTheirIds) {
  EXPECT_EQ(info_of(KernelId::pool_mean).name, "pool_mean");
  EXPECT_TRUE(is_built_for(KernelId::pool_mean, 86));
  EXPECT_TRUE(is_built_for(KernelId::row_norm_bf16_3, 90));
  EXPECT_TRUE(is_built_for(KernelId::row_norm_bf16_3, 100));
  EXPECT_FALSE(is_built_for(KernelId::row_norm_bf16_3, 80));
  EXPECT_TRUE(is_built_for(KernelId::pool_mean, 103));
  EXPECT_FALSE(is_built_for(KernelId::pool_mean, 75));
  EXPECT_FALSE(is_built_for(KernelId::row_norm_bf16_3, 120));
  // What Hopper has tuning parameters of its own for is not its, though it could run the PTX.
  EXPECT_FALSE(is_built_for(KernelId::attention_mma_bf16_d64_r128_k64, 90));
  EXPECT_TRUE(is_built_for(KernelId::attention_mma_bf16_d64_r128_k64, 120));
}

}  // namespace
}  // namespace fovea::gpu
