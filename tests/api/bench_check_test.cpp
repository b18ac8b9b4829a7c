// What the bench takes for an encoder's output, and what not.
#include "api/bench_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace fovea {
namespace {

constexpr std::size_t kDimension = 768;

/// Embeddings like those of random pixels: far from zero, and close to each other.
std::vector<float> embeddings(std::size_t images, unsigned seed) {
  std::mt19937 same(0);
  std::mt19937 other(seed);
  std::normal_distribution<float> common(0, 1);
  std::normal_distribution<float> difference(0, 0.05F);
  std::vector<float> centre(kDimension);
  std::ranges::generate(centre, [&] { return common(same); });
  std::vector<float> all;
  for (std::size_t image = 0; image < images; ++image) {
    for (const float value : centre) {
      all.push_back(value + difference(other));
    }
  }
  return all;
}

std::string why(const std::vector<float>& tried, const std::vector<float>& exact) {
  try {
    check_distinct(tried, kDimension);
    check_against_exact(tried, exact, kDimension);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(BenchCheck, TakesWhatRoundsOtherwise) {
  const std::vector<float> exact = embeddings(2, 1);
  std::vector<float> rounded = exact;
  for (float& value : rounded) {
    value = to_float(to_bfloat16(value));
  }
  ASSERT_NE(rounded, exact);
  EXPECT_EQ(why(rounded, exact), "");
  EXPECT_EQ(why({rounded.begin(), rounded.begin() + kDimension}, exact), "");  // a batch of one
  EXPECT_EQ(why(rounded, {}), "");  // no reference: finite and distinct is all that is asked
}

TEST(BenchCheck, RefusesOneImageForTheOther) {
  const std::vector<float> exact = embeddings(2, 1);
  std::vector<float> exchanged = exact;
  std::rotate(exchanged.begin(), exchanged.begin() + kDimension, exchanged.end());
  EXPECT_NE(why(exchanged, exact).find("the difference of images"), std::string::npos);
  EXPECT_NE(why(embeddings(2, 7), exact).find("the difference of images"), std::string::npos);
}

TEST(BenchCheck, RefusesWhatIsFarFromFp32) {
  const std::vector<float> exact = embeddings(2, 1);
  std::vector<float> noisy = exact;
  std::mt19937 generator(3);
  std::normal_distribution<float> noise(0, 0.3F);
  std::ranges::for_each(noisy, [&](float& value) { value += noise(generator); });
  EXPECT_NE(why(noisy, exact).find("cosine"), std::string::npos);
  EXPECT_NE(why(std::vector<float>(2 * kDimension), exact), "");
}

TEST(BenchCheck, RefusesWhatIsNotFiniteOrTheSameForAll) {
  const std::vector<float> exact = embeddings(3, 1);
  std::vector<float> broken = exact;
  broken.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(why(broken, {}).find("finite"), std::string::npos);
  std::vector<float> alike = exact;
  std::copy_n(alike.begin(), kDimension, alike.end() - kDimension);
  EXPECT_NE(why(alike, {}).find("images 0 and 2"), std::string::npos);
}

}  // namespace
}  // namespace fovea
