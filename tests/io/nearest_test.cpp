// What mistyped words were meant to be.
#include "io/nearest.hpp"

#include <gtest/gtest.h>

namespace fovea::io {
namespace {

const std::vector<std::string> kWords = {"embed", "bench", "batch-size", "bed", "calibrate"};

TEST(Nearest, FindsLettersLeftOutInsertedReplacedAndSwapped) {
  for (const char* const word : {"embd", "embeed", "enbed", "emebd", "EMBED"}) {
    EXPECT_EQ(nearest(word, kWords), std::vector<std::string>{"embed"}) << word;
  }
  EXPECT_EQ(nearest("batchsize", kWords), std::vector<std::string>{"batch-size"});
}

TEST(Nearest, TakesAllThatAreEquallyNearOrThatGoOn) {
  EXPECT_EQ(nearest("ben", kWords), std::vector<std::string>{"bench"});
  EXPECT_EQ(nearest("bet", kWords), std::vector<std::string>{"bed"});
  EXPECT_EQ(nearest("cali", kWords), std::vector<std::string>{"calibrate"});
  EXPECT_EQ(did_you_mean("rat", std::vector<std::string>{"bat", "cat"}),
            "; did you mean bat or cat?");
}

TEST(Nearest, FindsNothingThatIsFar) {
  EXPECT_TRUE(nearest("photos", kWords).empty());
  EXPECT_TRUE(nearest("", kWords).empty());
  EXPECT_TRUE(nearest(std::string(100'000, 'e'), kWords).empty());
  EXPECT_EQ(did_you_mean("photos", kWords), "");
}

}  // namespace
}  // namespace fovea::io
