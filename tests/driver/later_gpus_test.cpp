// GPUs that came after this program: what they run is compiled by their driver, from PTX.
#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "driver/fake_driver.hpp"
#include "gpu/device/driver_api.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/gpu_backend.hpp"
#include "gpu/launch/attention.hpp"
#include "gpu/launch/launch.hpp"
#include "gpu/launch/norm.hpp"

namespace fovea::gpu {
namespace {

class LaterGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
  void TearDown() override {
    fake_driver_set_capability(90);
    fake_driver_set_load_result(driver::kSuccess);
    unsetenv("FOVEA_FORCE_PTX");
    driver::check(driver::api().context_set(nullptr), "setting it");
  }

  /// The launch that a norm, and attention, come to on GPUs of this compute capability.
  static FakeLaunch norm_on(int capability) {
    fake_driver_set_capability(capability);
    const std::unique_ptr<Device> device = open_cuda_device(0);
    KernelCache kernels(*device);
    kernels.run(layer_norm_launch(*device, {.rows = 5, .width = 768}, {}), *device->make_stream());
    return fake_driver_launch(fake_driver_launches() - 1);
  }
  static std::string why_not(Precision precision) {
    try {
      const auto backend = make_gpu_backend(open_cuda_device(0), {.precision = precision});
      return backend->description();
    } catch (const Error& error) {
      return error.what();
    }
  }
};

TEST_F(LaterGpus, RunMachineCodeWhereThereIsSomeAndElsePtx) {
  for (const int capability : {80, 86, 89, 90, 100, 103}) {
    EXPECT_EQ(norm_on(capability).ptx, 0) << capability;
  }
  for (const int capability : {110, 120, 121, 140}) {
    EXPECT_EQ(norm_on(capability).ptx, 1) << capability;
  }
}

// PTX of 9.0 has the wait that machine code of 8.x lacks.
TEST_F(LaterGpus, StartGridsEarly) {
  EXPECT_EQ(norm_on(89).dependent, 0);
  EXPECT_EQ(norm_on(103).dependent, 1);
  EXPECT_EQ(norm_on(120).dependent, 1);
}

TEST_F(LaterGpus, TakeBf16AndRefuseEightBits) {
  for (const int capability : {103, 120}) {
    fake_driver_set_capability(capability);
    EXPECT_EQ(why_not(Precision::kAuto),
              "cuda (a stand-in, sm_" + std::to_string(capability) + "), bf16");
    for (const Precision precision : {Precision::kInt8, Precision::kFp8}) {
      const std::string reason = why_not(precision);
      EXPECT_NE(reason.find("no kernel for"), std::string::npos) << reason;
      EXPECT_NE(reason.find("Use bf16"), std::string::npos) << reason;
    }
  }
}

// The B200 multiplies integers of 8 bits, and B300 does not.
TEST_F(LaterGpus, TakeEightBitsOnTheB200) {
  fake_driver_set_capability(100);
  EXPECT_EQ(why_not(Precision::kInt8), "cuda (a stand-in, sm_100), int8");
  EXPECT_EQ(why_not(Precision::kFp8), "cuda (a stand-in, sm_100), fp8");
}

TEST_F(LaterGpus, TakeMxfp8WhereTensorCoresHaveScalesOfBlocks) {
  for (const int capability : {100, 103}) {
    fake_driver_set_capability(capability);
    EXPECT_EQ(why_not(Precision::kMxfp8),
              "cuda (a stand-in, sm_" + std::to_string(capability) + "), mxfp8");
  }
  for (const int capability : {90, 120}) {
    fake_driver_set_capability(capability);
    const std::string reason = why_not(Precision::kMxfp8);
    EXPECT_NE(reason.find("no kernel for"), std::string::npos) << reason;
    EXPECT_NE(reason.find("B200 and B300 have tensor cores for it"), std::string::npos) << reason;
  }
}

TEST_F(LaterGpus, HaveAttentionWithoutHoppersKernels) {
  fake_driver_set_capability(120);
  const std::unique_ptr<Device> device = open_cuda_device(0);
  for (const AttentionPlan& plan : attention_plans(
           ops::packed_attention(4, 196, 12, 64, 0.125, DType::kBF16), device->info())) {
    EXPECT_EQ(plan_level(plan), AttentionLevel::kMma) << to_string(plan);
    const KernelImage* const image =
        find_kernel_image(kernel_of(plan, DType::kBF16), device->info().arch());
    ASSERT_NE(image, nullptr) << to_string(plan);
    EXPECT_EQ(image->code, Code::kPtx) << to_string(plan);
  }
}

TEST_F(LaterGpus, SayWhenTheDriverCannotCompile) {
  fake_driver_set_load_result(driver::kJitCompilerNotFound);
  try {
    (void)norm_on(120);
    FAIL() << "it loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("libnvidia-ptxjitcompiler.so.1"), std::string::npos)
        << error.what();
  }
}

TEST_F(LaterGpus, AreShownByOthersWhenAskedFor) {
  setenv("FOVEA_FORCE_PTX", "1", 1);
  EXPECT_EQ(norm_on(90).ptx, 1);
  EXPECT_EQ(why_not(Precision::kAuto), "cuda (a stand-in, as if it were sm_120, sm_120), bf16");
  EXPECT_LE(open_cuda_device(0)->info().shared_bytes_per_block, std::size_t{99} << 10);
  fake_driver_set_capability(89);
  EXPECT_THROW((void)open_cuda_device(0), Error) << "PTX of 9.0 does not run there";
  fake_driver_set_capability(90);
  setenv("FOVEA_FORCE_PTX", "yes", 1);
  EXPECT_THROW((void)open_cuda_device(0), Error);
  setenv("FOVEA_FORCE_PTX", "0", 1);
  EXPECT_EQ(norm_on(90).ptx, 0);
}

}  // namespace
}  // namespace fovea::gpu
