// Buffers for pixels come back and are used again, but not all are kept.
#include "api/input_buffers.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace fovea {
namespace {

class InputBuffersTest : public ::testing::Test {
 protected:
  int allocated_ = 0;
  int freed_ = 0;
  InputBuffers buffers_{[this](std::size_t bytes) {
    ++allocated_;
    return HostBuffer(new std::uint8_t[bytes], bytes, [this](std::uint8_t* data) {
      ++freed_;
      delete[] data;
    });
  }};
};

TEST_F(InputBuffersTest, AreUsedAgainWhenLargeEnough) {
  const std::uint8_t* first = nullptr;
  {
    const HostBuffer buffer = buffers_.take(100);
    first = buffer.span().data();
    EXPECT_EQ(buffer.size(), 100U);
  }
  {
    const HostBuffer smaller = buffers_.take(60);
    EXPECT_EQ(smaller.span().data(), first);
    EXPECT_EQ(smaller.size(), 60U);
    const HostBuffer beside = buffers_.take(60);
    EXPECT_NE(beside.span().data(), first);
  }
  EXPECT_EQ(allocated_, 2);
  {
    const HostBuffer whole = buffers_.take(100);  // still as large as it was
    EXPECT_EQ(whole.span().data(), first);
    const HostBuffer larger = buffers_.take(101);
    EXPECT_EQ(larger.size(), 101U);
  }
  EXPECT_EQ(allocated_, 3);
  EXPECT_EQ(freed_, 0);
}

TEST_F(InputBuffersTest, KeepsTheLargestFew) {
  constexpr std::size_t kMany = 9;
  {
    std::vector<HostBuffer> taken;
    for (std::size_t i = 0; i < kMany; ++i) {
      taken.push_back(buffers_.take(10 + i));
    }
  }
  EXPECT_EQ(allocated_, static_cast<int>(kMany));
  EXPECT_EQ(freed_, static_cast<int>(kMany) - 4);
  const HostBuffer largest = buffers_.take(10 + kMany - 1);
  EXPECT_EQ(allocated_, static_cast<int>(kMany));
}

}  // namespace
}  // namespace fovea
