// Which kernels an 8-bit precision launches for layers that calibration left in bf16, on a GPU that
// stands in for one.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "driver/fake_driver.hpp"
#include "fovea/calibrate.hpp"
#include "fovea/encoder.hpp"
#include "fovea/job.hpp"
#include "fovea/model.hpp"
#include "gpu/device/driver_api.hpp"
#include "gpu/device/kernel_image.hpp"

namespace fovea {
namespace {

class Bf16Layers : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "fovea-driver-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    init_checkpoint({.preset = "tiny", .folder = folder_ / "m", .threads = 1});
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    gpu::driver::check(gpu::driver::api().context_set(nullptr), "setting it");
  }

  void calibrate_with(int bf16_layers) const {
    CalibrateOptions options;
    options.model = (folder_ / "m").string();
    options.input.inputs = {FOVEA_PHOTOS};
    options.images = 2;
    options.precisions = {Precision::kInt8, Precision::kFp8};
    options.bf16_layers = bf16_layers;
    calibrate(options);
  }

  /// The kernels that an image takes, from the first layer's norm on.
  std::vector<std::string> kernels(Precision precision) const {
    Encoder encoder((folder_ / "m").string(), {.device = "cuda", .precision = precision});
    const Preprocessing& want = encoder.preprocessing();
    const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(want.height * want.width * 3));
    const int before = fake_driver_launches();
    static_cast<void>(encoder.embed_pixels(pixels, false));
    std::vector<std::string> found;
    for (int i = before; i < fake_driver_launches(); ++i) {
      const std::string name = fake_driver_launch(i).kernel;
      if (!found.empty() || name.find("norm") != std::string::npos) {
        found.push_back(name);
      }
    }
    return found;
  }

  std::filesystem::path folder_;
};

TEST_F(Bf16Layers, RunTheKernelsOfBf16) {
  constexpr std::ptrdiff_t kLayers = 3;
  constexpr std::ptrdiff_t kOfALayer = 7;  // norm, qkv, attention, out, norm, fc1 and fc2
  const std::vector<std::string> bf16 = kernels(Precision::kBf16);
  ASSERT_GT(std::ssize(bf16), kLayers * kOfALayer);
  for (const Precision precision : {Precision::kInt8, Precision::kFp8}) {
    calibrate_with(0);
    const std::vector<std::string> without = kernels(precision);
    ASSERT_EQ(without.size(), bf16.size());
    for (std::ptrdiff_t layers = 1; layers <= kLayers; ++layers) {
      calibrate_with(static_cast<int>(layers));
      std::vector<std::string> expected(bf16.begin(), bf16.begin() + layers * kOfALayer);
      expected.insert(expected.end(), without.begin() + layers * kOfALayer, without.end());
      ASSERT_NE(expected, without);
      EXPECT_EQ(kernels(precision), expected) << layers << " layers in bf16";
    }
  }
}

TEST_F(Bf16Layers, AreTold) {
  calibrate_with(2);
  EmbedOptions options;
  options.model = (folder_ / "m").string();
  options.input.inputs = {FOVEA_PHOTOS};
  options.output = (folder_ / "out.npy").string();
  options.encoder = {.device = "cuda", .precision = Precision::kInt8};
  options.normalize = false;  // they are zeros
  std::vector<std::string> told;
  options.control.on_device = [&](std::string_view device) { told.emplace_back(device); };
  options.control.on_note = [&](std::string_view note) { told.emplace_back(note); };
  const std::string device = "cuda (a stand-in, sm_90), int8";
  const std::string note = "the first 2 of 3 layers are in bf16";
  EXPECT_EQ(embed_job(options).failed, 0U);
  EXPECT_EQ(told, (std::vector{device, note}));
  EXPECT_EQ(Encoder(options.model, options.encoder).device(), device + "; " + note);
  calibrate_with(0);
  told.clear();
  EXPECT_EQ(embed_job(options).failed, 0U);
  EXPECT_EQ(told, std::vector{device});
}

}  // namespace
}  // namespace fovea
