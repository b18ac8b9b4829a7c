// Products of 8-bit whole numbers by cuBLASLt, on a stand-in for its library.
#include "gpu/nvidia/cublaslt.hpp"

#include <cstdlib>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/host_device.hpp"

namespace fovea::gpu {
namespace {

DevicePtr address(const void* memory) {
  return reinterpret_cast<DevicePtr>(memory);
}

class CublasLtTest : public testing::Test {
 protected:
  void SetUp() override { setenv("FOVEA_CUBLASLT", FOVEA_FAKE_CUBLASLT, 1); }
  void TearDown() override { unsetenv("FOVEA_CUBLASLT"); }

  HostDevice device_;
  HostStream stream_;
};

TEST_F(CublasLtTest, SumsOfWholeNumbersStayWhole) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kColumns = 5;
  constexpr std::int64_t kInner = 16;
  std::vector<std::int8_t> a(kRows * kInner);
  std::vector<std::int8_t> b(kColumns * kInner);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int8_t>(i * 37 + 11);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = static_cast<std::int8_t>(i * 53 + 7);
  }
  const std::unique_ptr<CublasLt> library = open_cublaslt(device_);
  for (const bool accumulate : {false, true}) {
    const std::unique_ptr<MatmulPlan> plan = library->prepare(
        {.m = kRows, .n = kColumns, .k = kInner, .type = DType::kI8, .accumulate = accumulate});
    std::vector<std::int32_t> output(kRows * kColumns, 1'000'000);
    plan->run({.a = address(a.data()), .b = address(b.data()), .output = address(output.data())},
              stream_);
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t column = 0; column < kColumns; ++column) {
        std::int32_t sum = accumulate ? 1'000'000 : 0;
        for (std::int64_t k = 0; k < kInner; ++k) {
          sum += a[row * kInner + k] * b[column * kInner + k];
        }
        EXPECT_EQ(output[row * kColumns + column], sum) << row << ", " << column;
      }
    }
  }
}

TEST_F(CublasLtTest, WhatTheLibraryDoesNotHaveIsNamed) {
  const std::unique_ptr<CublasLt> library = open_cublaslt(device_);
  try {
    (void)library->prepare({.m = 1, .n = 2, .k = 16});
    FAIL() << "the stand-in has no bf16";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cuBLASLt has no algorithm for bf16 [1,16] x [2,16]^T -> bf16");
  }
}

}  // namespace
}  // namespace fovea::gpu
