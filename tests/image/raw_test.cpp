// The search for a camera's preview: what it costs in hostile files, and what chance leads it to.
#include "image/raw.hpp"

#include <atomic>
#include <cstddef>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "image/encode.hpp"

namespace fovea::image {
namespace {

using test::Data;

Data jpeg_start() {
  return {0xff, 0xd8, 0xff};
}

Bytes raw_file(const Data& data) {
  return std::as_bytes(std::span(data));
}

void put_often(Data& data, const Data& part, std::size_t times) {
  for (std::size_t index = 0; index < times; ++index) {
    data.insert(data.end(), part.begin(), part.end());
  }
}

void put(Data& data, const Data& part) {
  put_often(data, part, 1);
}

TEST(RawPreview, LiesBetweenOtherData) {
  const Data jpeg = test::jpeg(test::noise(20, 10));
  Data file(1000, 7);
  put(file, test::jpeg(test::noise(10, 10)));
  const std::size_t start = file.size();
  put(file, jpeg);
  put(file, jpeg_start());
  const RawPreview preview = find_raw_preview(raw_file(file), {});
  EXPECT_EQ(preview.jpeg.data(), raw_file(file).data() + start);
  EXPECT_EQ(preview.jpeg.size(), jpeg.size());
}

TEST(RawPreview, IsFoundWhereSearchesForOthersBegan) {
  const Data jpeg = test::jpeg(test::noise(20, 10));
  for (const Data& chance : {Data{0xff, 0xd8}, jpeg_start(), Data{0xff, 0xd8, 0xff, 0xe0},
                             Data{0xff, 0xd8, 0xff, 0xe0, 0, 1}, Data{0xff, 0xd8, 0xff, 0xc0, 0, 2},
                             Data{0xff, 0xd8, 0xff, 0xd9}, Data{0xff, 0xd8, 0xff, 0xda, 0, 2}}) {
    Data file = chance;
    put(file, jpeg);
    EXPECT_EQ(find_raw_preview(raw_file(file), {}).jpeg.size(), jpeg.size());
  }
  Data overexposed{0xff, 0xd8};  // which is no reason to give up
  put_often(overexposed, Data{0xff}, std::size_t{5} << 20);
  put(overexposed, Data{0});
  put(overexposed, jpeg);
  EXPECT_EQ(find_raw_preview(raw_file(overexposed), {}).jpeg.size(), jpeg.size());
}

TEST(RawPreview, StartsThatLeadToTheSameMarkersCostNoMoreThanTheLimit) {
  constexpr std::size_t kMost = (std::size_t{1} << 22) + 1024;
  Data file = test::jpeg(test::noise(20, 10));
  const std::size_t size = file.size();
  // Each start leads behind all others, to 250,000 markers; without a limit that were 2.5e9.
  constexpr std::size_t kStarts = 10'000;
  for (std::size_t start = 0; start < kStarts; ++start) {
    put(file, Data{0xff, 0xd8, 0xff, 0xfe, 0xff, 0xfe, 0, 0});
  }
  put_often(file, Data{0xff, 0xfe, 0, 2}, 250'000);
  const RawPreview preview = find_raw_preview(raw_file(file), {});
  EXPECT_EQ(preview.jpeg.size(), size);
  EXPECT_GT(preview.work, kStarts);
  EXPECT_LE(preview.work, kMost);

  file.resize(size);
  put_often(file, jpeg_start(), 5'000'000);
  EXPECT_LE(find_raw_preview(raw_file(file), {}).work, kMost);
}

TEST(RawPreview, WholeHeadersAreLookedAtOnce) {
  Data file = test::jpeg(test::noise(20, 10));
  const std::size_t of_one = find_raw_preview(raw_file(file), {}).work;
  // A segment full of starts of JPEGs belongs to the JPEG around it.
  Data segment{0xff, 0xe2, 0xff, 0xff};
  put_often(segment, jpeg_start(), 21'844);
  segment.resize(65'537);
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  EXPECT_EQ(find_raw_preview(raw_file(file), {}).work, of_one + 1);
}

TEST(RawPreview, StopsWhenAsked) {
  const std::atomic<bool> stop{true};
  const Data file = test::jpeg(test::noise(20, 10));
  EXPECT_THROW((void)find_raw_preview(raw_file(file), &stop), Interrupted);
}

}  // namespace
}  // namespace fovea::image
