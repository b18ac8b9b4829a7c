// The step protocol on a device in host memory, which carries out one kernel.
#include "lab/measure/steps.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/repeating_device.hpp"

namespace fovea::lab {
namespace {

std::vector<std::string> answers(std::int64_t missing, const std::string& lines) {
  RepeatingDevice device(missing);
  const std::vector<std::string> names = {"pixels_repeat"};
  std::istringstream in(lines);
  std::ostringstream out;
  run_steps(device, {.card = find_cards(names).front(), .case_name = "rows3_width768"}, in, out);
  std::vector<std::string> all;
  std::istringstream written(out.str());
  for (std::string line; std::getline(written, line);) {
    all.push_back(line);
  }
  return all;
}

class StepsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::kernel_images().empty()) {
      GTEST_SKIP() << "this program has no kernels: scripts/build --test builds them";
    }
  }
};

TEST_F(StepsTest, AnswerEachLineUntilTheInputEnds) {
  const std::vector<std::string> said = answers(0, "sample\nhurry\nsample\n");
  ASSERT_EQ(said.size(), 4U);
  EXPECT_TRUE(said[0].starts_with(R"({"ready":{"card":"pixels_repeat","case":"rows3_width768",)"));
  EXPECT_TRUE(said[1].starts_with(R"({"seconds":)")) << said[1];
  EXPECT_NE(said[1].find(R"("slowed":false)"), std::string::npos);
  EXPECT_TRUE(said[2].starts_with(R"({"error":)"));
  EXPECT_EQ(said[3], said[1]);
}

TEST_F(StepsTest, AKernelThatIsWrongIsNotTimed) {
  EXPECT_THROW((void)answers(1, "sample\n"), Error);
}

}  // namespace
}  // namespace fovea::lab
