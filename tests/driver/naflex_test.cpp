// Which kernels a NaFlex model launches, on a GPU that stands in for one.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "driver/fake_driver.hpp"
#include "fovea/encoder.hpp"
#include "fovea/model.hpp"
#include "gpu/device/driver_api.hpp"
#include "gpu/device/kernel_image.hpp"

namespace fovea {
namespace {

TEST(Naflex, ImagesOfDifferentSizesTakeTheKernelsForThem) {
  if (gpu::kernel_images().empty()) {
    GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
  }
  std::string folder = (std::filesystem::temp_directory_path() / "fovea-driver-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  init_checkpoint({.preset = "tiny-naflex", .folder = folder, .overwrite = true, .threads = 1});
  const auto launched = [&](const auto& embed) {
    const int before = fake_driver_launches();
    embed();
    std::vector<std::string> found;
    for (int i = before; i < fake_driver_launches(); ++i) {
      found.push_back(fake_driver_launch(i).kernel);
    }
    return found;
  };
  const auto count = [](const std::vector<std::string>& kernels, std::string_view name) {
    return std::ranges::count_if(
        kernels, [&](const std::string& one) { return one.find(name) != std::string::npos; });
  };
  {
    Encoder encoder(folder, {.device = "cuda", .precision = Precision::kBf16});
    const std::vector<std::uint8_t> pixels(std::size_t{3} * 48 * 80 * 3);
    const std::vector<std::string> kernels =
        launched([&] { static_cast<void>(encoder.embed_pixels(pixels, 48, 80, false)); });
    EXPECT_EQ(count(kernels, "pixels_widen"), 1);
    EXPECT_EQ(count(kernels, "pixels_positions"), 1);
    EXPECT_EQ(count(kernels, "pixels_repeat"), 0);
    EXPECT_EQ(count(kernels, "attention_mma"), 3);  // one a layer
    EXPECT_EQ(count(kernels, "attention_"), 3);
    EXPECT_EQ(count(kernels, "pool_mean"), 1);
    // And for one image of the smallest size.
    const std::vector<std::string> alone = launched([&] {
      static_cast<void>(encoder.embed_pixels(std::span(pixels).first(16 * 16 * 3), 16, 16, false));
    });
    EXPECT_EQ(count(alone, "attention_"), 3);
    EXPECT_EQ(count(alone, "attention_mma"), 3);
  }
  std::filesystem::remove_all(folder);
  gpu::driver::check(gpu::driver::api().context_set(nullptr), "setting it");
}

}  // namespace
}  // namespace fovea
