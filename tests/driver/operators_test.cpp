// The C operators on a GPU that stands in for one: which kernels they launch, where, and in whose
// context. What the kernels compute is tested on a GPU, by python/tests/operators.
#include "fovea/c/operators.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "driver/fake_driver.hpp"
#include "fovea/c/kernels.h"
#include "gpu/device/driver_api.hpp"

namespace fovea::c {
namespace {

namespace driver = gpu::driver;

/// The thread works on GPU 0, the operators on GPU 1.
class GpuOperatorsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (fovea_kernel_count() == 0) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
    driver::check(driver::api().context_set(static_cast<driver::Context>(theirs_)), "setting it");
    args_.q = args_.k = args_.v = args_.o = memory_;
    args_.q_strides = {.batch = 1 << 20, .head = 64, .row = 512};
    args_.k_strides = args_.v_strides = args_.o_strides = args_.q_strides;
    args_.batch = 2;
    args_.heads = args_.kv_heads = 8;
    args_.queries = args_.keys = 512;
    args_.head_dim = 64;
    args_.scale = 0.125;
    args_.type = FOVEA_F16;
  }
  void TearDown() override {
    driver::Context now = nullptr;
    driver::check(driver::api().context_get(&now), "asking for the context");
    if (fovea_kernel_count() != 0) {
      EXPECT_EQ(now, theirs_);
    }
    EXPECT_EQ(fake_driver_astray(), astray_);
    driver::check(driver::api().context_set(nullptr), "setting it");
  }

  /// What the call launched.
  template <typename Args>
  std::vector<FakeLaunch> launched(fovea_status (*call)(const Args*, const fovea_place*),
                                   const Args& args) {
    const int before = fake_driver_launches();
    EXPECT_EQ(call(&args, &place_), FOVEA_OK) << fovea_last_error();
    std::vector<FakeLaunch> found;
    for (int i = before; i < fake_driver_launches(); ++i) {
      found.push_back(fake_driver_launch(i));
      EXPECT_EQ(found.back().stream, place_.stream);
    }
    return found;
  }

  void* theirs_ = fake_driver_context(0);
  int astray_ = fake_driver_astray();
  alignas(256) std::byte memory_[256]{};
  int stream_ = 0;
  fovea_place place_{.device = 1, .threads = 1, .stream = &stream_};
  fovea_attention_args args_{};
};

TEST_F(GpuOperatorsTest, MasksFromTheFirstKeyTakeOneLaunchOrTwo) {
  args_.causal = FOVEA_CAUSAL_FIRST;
  EXPECT_EQ(launched(fovea_attention, args_).size(), 1U);
  args_.keys = 700;  // those beyond the last query are left out
  EXPECT_EQ(launched(fovea_attention, args_).size(), 1U);
  args_.keys = 300;  // queries beyond the last key see all keys
  EXPECT_EQ(launched(fovea_attention, args_).size(), 2U);
  args_.causal = FOVEA_CAUSAL_NONE;
  EXPECT_EQ(launched(fovea_attention, args_).size(), 1U);
}

TEST_F(GpuOperatorsTest, ChoosesWhatItLaunches) {
  for (const std::int32_t level : {FOVEA_LEVEL_AUTO, FOVEA_LEVEL_MMA, FOVEA_LEVEL_WGMMA}) {
    args_.level = level;
    fovea_attention_choice choice{};
    ASSERT_EQ(fovea_attention_choose(&args_, &place_, &choice), FOVEA_OK) << fovea_last_error();
    const std::vector<FakeLaunch> found = launched(fovea_attention, args_);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].kernel, std::string_view(choice.kernel));
    EXPECT_EQ(found[0].dependent, 0) << "the caller's kernels need not wait for those before them";
    EXPECT_GT(choice.shared_bytes, 0);
    if (level != FOVEA_LEVEL_AUTO) {
      EXPECT_EQ(choice.level, std::string_view(level == FOVEA_LEVEL_MMA ? "mma" : "wgmma"));
    }
  }
}

TEST_F(GpuOperatorsTest, RefusesWhatNoKernelRuns) {
  args_.head_dim = 20;
  EXPECT_EQ(fovea_attention(&args_, &place_), FOVEA_FAILED);
  EXPECT_NE(std::string_view(fovea_last_error()).find("multiples of 8"), std::string_view::npos);
  args_.head_dim = 64;
  args_.type = FOVEA_F32;
  EXPECT_EQ(fovea_attention(&args_, &place_), FOVEA_FAILED);
  args_.type = FOVEA_F16;
  place_.device = 7;
  EXPECT_EQ(fovea_attention(&args_, &place_), FOVEA_FAILED);
  EXPECT_NE(std::string_view(fovea_last_error()).find("no GPU 7"), std::string_view::npos);
}

TEST_F(GpuOperatorsTest, RefusesGpusThatItHasNoKernelsFor) {
  fake_driver_set_capability(75);
  place_.device = 0;
  fovea_attention_choice choice{};
  EXPECT_EQ(fovea_attention_choose(&args_, &place_, &choice), FOVEA_FAILED);
  EXPECT_NE(std::string_view(fovea_last_error()).find("attention needs 8.0 or later"),
            std::string_view::npos)
      << fovea_last_error();
  fake_driver_set_capability(90);
}

// A caller's graph is not lost to what the first use of an operator allocates and loads.
TEST_F(GpuOperatorsTest, TheFirstUseMayBeWithinACapture) {
  fake_driver_set_capturing(true);
  fovea_linear_args linear{};
  linear.x = linear.weight = linear.output = memory_;
  linear.rows = 1;
  linear.in = 64;
  linear.out = 1 << 20;  // more zeros in place of the bias than there are
  linear.type = FOVEA_BF16;
  EXPECT_EQ(launched(fovea_linear, linear).size(), 1U);
  EXPECT_EQ(launched(fovea_attention, args_).size(), 1U);
  fake_driver_set_capturing(false);
  EXPECT_EQ(fake_driver_spoilt(), 0);
  EXPECT_EQ(fake_driver_capture_mode(), gpu::driver::kCaptureModeGlobal);
}

// Tensors that are expanded over the batch or over heads, which no tensor map describes.
TEST_F(GpuOperatorsTest, ExpandedTensorsAreReadAsTheyLie) {
  for (fovea_strides* const strides : {&args_.q_strides, &args_.k_strides, &args_.v_strides}) {
    for (std::int64_t fovea_strides::* const which :
         {&fovea_strides::batch, &fovea_strides::head, &fovea_strides::row}) {
      const std::int64_t before = std::exchange(strides->*which, 0);
      const std::vector<FakeLaunch> found = launched(fovea_attention, args_);
      ASSERT_EQ(found.size(), 1U);
      EXPECT_NE(std::string_view(found[0].kernel).find("attention_mma"), std::string_view::npos)
          << found[0].kernel;
      args_.level = FOVEA_LEVEL_WGMMA;
      EXPECT_EQ(fovea_attention(&args_, &place_), FOVEA_FAILED);
      EXPECT_NE(std::string_view(fovea_last_error()).find("stride of 0"), std::string_view::npos)
          << fovea_last_error();
      args_.level = FOVEA_LEVEL_AUTO;
      strides->*which = before;
    }
  }
  args_.o_strides.head = 0;
  EXPECT_EQ(fovea_attention(&args_, &place_), FOVEA_FAILED);
  EXPECT_NE(std::string_view(fovea_last_error()).find("overlap"), std::string_view::npos);
}

TEST_F(GpuOperatorsTest, LayersWaitForWhatIsAheadOfThem) {
  fovea_linear_args linear{};
  linear.x = linear.weight = memory_;
  linear.output = memory_;
  linear.rows = 196;
  linear.in = linear.out = 768;
  linear.type = FOVEA_BF16;
  // Without a bias there are zeros, made once.
  std::vector<FakeLaunch> found = launched(fovea_linear, linear);
  ASSERT_EQ(found.size(), 1U);
  const int alive = fake_driver_alive();
  EXPECT_STREQ(launched(fovea_linear, linear).at(0).kernel, found[0].kernel);
  EXPECT_EQ(fake_driver_alive(), alive);
  EXPECT_NE(std::string_view(found[0].kernel).find("gemm"), std::string_view::npos);
  // The caller's own kernel may have made the weights just now, and these read them early.
  EXPECT_EQ(found[0].dependent, 0);

  fovea_layer_norm_args norm{};
  norm.x = norm.output = memory_;
  norm.weight = norm.bias = reinterpret_cast<const float*>(memory_);
  norm.rows = 196;
  norm.width = 768;
  norm.type = FOVEA_BF16;
  found = launched(fovea_layer_norm, norm);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].dependent, 0);

  linear.type = FOVEA_F16;
  EXPECT_EQ(fovea_linear(&linear, &place_), FOVEA_FAILED);
  EXPECT_NE(std::string_view(fovea_last_error()).find("f16"), std::string_view::npos);
}

}  // namespace
}  // namespace fovea::c
