// What tells models apart: architecture, weights, and the calibration used with them; nothing else.
#include "pipeline/fingerprint.hpp"

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "support.hpp"

namespace fovea::pipeline::testing {
namespace {

class FingerprintTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write("config.json", "{}");
    write("model-00001-of-00002.safetensors", "first");
    write("model-00002-of-00002.safetensors", "second");
  }
};

TEST_F(FingerprintTest, ChangesWithArchitectureAndEveryShard) {
  const std::string before = model_fingerprint(folder_);
  EXPECT_EQ(before.size(), 64U);
  EXPECT_EQ(model_fingerprint(folder_), before);
  write("model-00002-of-00002.safetensors", "secone");
  const std::string other_weights = model_fingerprint(folder_);
  EXPECT_NE(other_weights, before);
  write("config.json", "{ }");
  EXPECT_NE(model_fingerprint(folder_), other_weights);
}

// A job that was interrupted goes on after `fovea calibrate`, whatever the files of the model.
TEST_F(FingerprintTest, IsTheSameBesideCalibrationsThatAreNotUsed) {
  const std::string before = model_fingerprint(folder_);
  write("calibration-int8.safetensors", "one");
  EXPECT_EQ(model_fingerprint(folder_), before);
}

// And one in 8 bits does not: its rows would be of two calibrations.
TEST_F(FingerprintTest, ChangesWithTheCalibrationThatIsUsed) {
  const fs::path calibration = write("calibration-int8.safetensors", "one");
  const std::string before = model_fingerprint(folder_, calibration);
  EXPECT_NE(before, model_fingerprint(folder_));
  write("calibration-int8.safetensors", "two");
  EXPECT_NE(model_fingerprint(folder_, calibration), before);
}

TEST_F(FingerprintTest, CanBeStopped) {
  std::atomic<bool> stop = false;
  EXPECT_EQ(model_fingerprint(folder_, {}, &stop), model_fingerprint(folder_));
  stop = true;
  EXPECT_THROW((void)model_fingerprint(folder_, {}, &stop), Interrupted);
}

TEST_F(FingerprintTest, TakesTheOneFileWhereThereIsOne) {
  write("model.safetensors", "whole");
  const std::string before = model_fingerprint(folder_);
  write("model-00001-of-00002.safetensors", "changed");
  EXPECT_EQ(model_fingerprint(folder_), before);
}

}  // namespace
}  // namespace fovea::pipeline::testing
