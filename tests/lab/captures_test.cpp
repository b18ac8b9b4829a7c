// Files of what a GPU computed: what is kept comes back, and what differs is found.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/captures/results.hpp"

namespace fovea::captures {
namespace {

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// `bits` of numbers, of which a word has one, two or four.
std::string difference_of(DType format, std::uint32_t wanted, std::uint32_t found,
                          double absolute = 0) {
  const std::size_t size = size_of(format);
  const auto output = [&](std::uint32_t bits) {
    Bytes bytes(12 * size);  // three words at least
    for (std::size_t offset = 0; offset < bytes.size(); offset += size) {
      std::memcpy(&bytes[offset], &wanted, size);
    }
    std::memcpy(&bytes[size], &bits, size);
    return bytes;
  };
  return difference(record_of(output(wanted), kAllWords), output(found),
                    {.format = format, .ulps = 2, .absolute = absolute});
}

class CapturesFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CapturesFileTest, WhatIsWrittenIsRead) {
  const std::filesystem::path path = folder_ / "a.captures";
  Results results{.device = "a GPU", .driver = "13000", .commit = "0123", .assembler = "ptxas"};
  results.kernels["one"] = {.identity = 1,
                            .code = 2,
                            .outputs = {record_of(bytes_of<float>({1, 2, 3}), kAllWords),
                                        record_of(Bytes(1000, std::byte{7}), 5)}};
  results.kernels["two"] = {.identity = 3, .error = "refused"};
  write_results(path, results);

  const Results read = read_results(path);
  EXPECT_EQ(read.device, "a GPU");
  EXPECT_EQ(read.driver, "13000");
  EXPECT_EQ(read.commit, "0123");
  EXPECT_EQ(read.assembler, "ptxas");
  ASSERT_EQ(read.kernels.size(), 2U);
  const Record& record = read.kernels.at("one");
  EXPECT_EQ(record.identity, 1U);
  EXPECT_EQ(record.code, 2U);
  ASSERT_EQ(record.outputs.size(), 2U);
  EXPECT_EQ(record.outputs[0].bytes, 12U);
  EXPECT_EQ(record.outputs[0].sample.size(), 3U);
  EXPECT_EQ(record.outputs[1].bytes, 1000U);
  EXPECT_EQ(record.outputs[1].sample.size(), 5U);
  EXPECT_EQ(record.outputs[1].hash, results.kernels["one"].outputs[1].hash);
  EXPECT_EQ(read.kernels.at("two").error, "refused");
}

TEST_F(CapturesFileTest, OtherFilesAreRefused) {
  const std::filesystem::path path = folder_ / "a.captures";
  EXPECT_THROW((void)read_results(path), Error);
  std::ofstream(path) << "not compressed";
  EXPECT_THROW((void)read_results(path), Error);

  write_results(path, {.device = "a GPU", .kernels = {{"one", {.identity = 1}}}});
  EXPECT_NO_THROW((void)read_results(path));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_THROW((void)read_results(path), Error);
}

TEST(CapturesDifferenceTest, OfTheSameBits) {
  std::vector<std::uint32_t> words(1000);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(i * 7);
  }
  const OutputRecord kept = record_of(bytes_of(words), 5);
  EXPECT_EQ(difference(kept, bytes_of(words), {}), "");

  std::vector<std::uint32_t> other = words;
  other[sampled_word(3, 5, words.size())] ^= 1U;
  EXPECT_NE(difference(kept, bytes_of(other), {}).find("1 of 5 recorded words"), std::string::npos);

  other = words;
  other[1] ^= 0x80000000U;  // which is not kept
  ASSERT_NE(sampled_word(1, 5, words.size()), 1U);
  EXPECT_NE(difference(kept, bytes_of(other), {}).find("although the 5 recorded words agree"),
            std::string::npos);

  words.pop_back();
  EXPECT_NE(difference(kept, bytes_of(words), {}).find("3996 bytes instead of 4000"),
            std::string::npos);
}

TEST(CapturesDifferenceTest, OfNearNumbers) {
  // One, and what is 2 and 3 steps from it.
  EXPECT_EQ(difference_of(DType::kF32, 0x3F800000U, 0x3F800002U), "");
  EXPECT_NE(difference_of(DType::kF32, 0x3F800000U, 0x3F800003U), "");
  EXPECT_EQ(difference_of(DType::kF16, 0x3C00U, 0x3BFEU), "");
  EXPECT_NE(difference_of(DType::kF16, 0x3C00U, 0x3BFDU), "");
  EXPECT_EQ(difference_of(DType::kBF16, 0x3F80U, 0x3F82U), "");
  EXPECT_NE(difference_of(DType::kBF16, 0x3F80U, 0x3F83U), "");
  EXPECT_EQ(difference_of(DType::kE4M3, 0x38U, 0x3AU), "");
  EXPECT_NE(difference_of(DType::kE4M3, 0x38U, 0x3BU), "");
  EXPECT_EQ(difference_of(DType::kI8, 0xFFU, 0x01U), "");  // -1 and 1
  EXPECT_NE(difference_of(DType::kI8, 0x7FU, 0x80U), "");  // 127 and -128
  EXPECT_EQ(difference_of(DType::kU8, 0x7FU, 0x80U), "");
  EXPECT_NE(difference_of(DType::kU8, 0xFFU, 0x01U), "");
}

TEST(CapturesDifferenceTest, SmallNumbersMayDifferByMoreSteps) {
  EXPECT_EQ(difference_of(DType::kBF16, 0x0001U, 0x8001U), "");  // on both sides of zero
  EXPECT_NE(difference_of(DType::kBF16, 0x3A00U, 0x3B00U), "");  // 0.0005 and 0.002
  EXPECT_EQ(difference_of(DType::kBF16, 0x3A00U, 0x3B00U, 0.0016), "");
  EXPECT_NE(difference_of(DType::kBF16, 0x3A00U, 0x7FC0U, 0.0016), "");  // NaN
  EXPECT_EQ(difference_of(DType::kBF16, 0x7FFFU, 0x7FC0U), "");
}

TEST(CapturesDifferenceTest, DistancesAreCounted) {
  const OutputRecord kept = record_of(bytes_of<std::uint16_t>({0x3F80, 0x3F80, 0x4000, 0}), 99);
  Distance all = distance(kept, bytes_of<std::uint16_t>({0x3F80, 0x3F7C, 0x4001, 0}), DType::kBF16);
  EXPECT_EQ(all.numbers, 4U);
  EXPECT_EQ(all.differing, 2U);
  EXPECT_EQ(all.ulps, 4);
  all.add({.numbers = 1, .differing = 1, .ulps = 9});
  EXPECT_EQ(all.numbers, 5U);
  EXPECT_EQ(all.differing, 3U);
  EXPECT_EQ(all.ulps, 9);
}

TEST(CapturesDifferenceTest, EveryOutputIsCompared) {
  const std::vector<Bytes> outputs = {bytes_of<float>({1, 2}), bytes_of<float>({3})};
  Record record;
  for (const Bytes& output : outputs) {
    record.outputs.push_back(record_of(output, kAllWords));
  }
  EXPECT_EQ(difference(record, outputs, {}), "");
  EXPECT_NE(difference(record, {outputs[0], bytes_of<float>({4})}, {}).find("output 1"),
            std::string::npos);
  EXPECT_NE(difference(record, {outputs[0]}, {}).find("1 outputs, not 2"), std::string::npos);
}

}  // namespace
}  // namespace fovea::captures
