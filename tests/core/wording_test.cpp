// Options as their readers write them.
#include "core/wording.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace fovea {
namespace {

class WordingTest : public ::testing::Test {
 protected:
  void TearDown() override { set_wording(Wording::kProgram); }
};

TEST(ListedTest, HasTheConjunctionBeforeTheLastWord) {
  EXPECT_EQ(listed({}, "or"), "");
  EXPECT_EQ(listed(std::vector<std::string>{"fp32"}, "or"), "fp32");
  EXPECT_EQ(listed(std::vector<std::string>{"int8", "fp8"}, "and"), "int8 and fp8");
  EXPECT_EQ(listed(std::vector<std::string>{"fp32", "bf16", "int8"}, "or"), "fp32, bf16 or int8");
}

TEST_F(WordingTest, OfTheProgram) {
  EXPECT_EQ(option_words("decode-threads"), "--decode-threads");
  EXPECT_EQ(option_words("precision", "bf16"), "--precision bf16");
}

TEST_F(WordingTest, OfPython) {
  set_wording(Wording::kPython);
  EXPECT_EQ(option_words("decode-threads"), "decode_threads");
  EXPECT_EQ(option_words("device", "emu:sm_80"), "device=\"emu:sm_80\"");
}

TEST_F(WordingTest, OfCpp) {
  set_wording(Wording::kCpp);
  EXPECT_EQ(option_words("decode-threads"), "decode_threads");
  EXPECT_EQ(option_words("device", "cpu"), "device = \"cpu\"");
  EXPECT_EQ(option_words("precision", "bf16"), "precision = Precision::kBf16");
  EXPECT_EQ(option_words("dtype", "f32"), "dtype = OutputDType::kF32");
  EXPECT_EQ(pull_words("a/b", "v1"), "fovea::pull({.id = \"a/b\", .revision = \"v1\"})");
}

TEST_F(WordingTest, OfC) {
  set_wording(Wording::kC);
  EXPECT_EQ(option_words("decode-memory"), "decode_memory");
  EXPECT_EQ(option_words("device", "cpu"), "device \"cpu\"");
  EXPECT_EQ(pull_words("a/b", "v1"), "fovea_pull(\"a/b\", \"v1\", ...)");
  EXPECT_EQ(feature_words(), "fovea_features_start");
}

}  // namespace
}  // namespace fovea
