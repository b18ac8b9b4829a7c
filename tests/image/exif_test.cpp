// The orientation in EXIF and XMP metadata, hostile ones included.
#include "image/exif.hpp"

#include <string_view>

#include <gtest/gtest.h>

#include "image/encode.hpp"

namespace fovea::image {
namespace {

using test::Data;

std::span<const std::byte> view_of(const Data& data) {
  return std::as_bytes(std::span(data));
}
std::span<const std::byte> view_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Exif, ReadsBothByteOrdersWithAndWithoutTheirPrefix) {
  for (const bool big_endian : {false, true}) {
    const Data data = test::exif(6, big_endian);
    EXPECT_EQ(exif_orientation(view_of(data)), 6);
    EXPECT_EQ(exif_orientation(view_of(data).subspan(6)), 6);
    Data twice(data.begin(), data.begin() + 6);
    twice.insert(twice.end(), data.begin(), data.end());
    EXPECT_EQ(exif_orientation(view_of(twice)), 6);
  }
}

TEST(Exif, AsksForNothingWhenItCannotBeRead) {
  const Data data = test::exif(6);
  constexpr std::size_t kEndOfEntry = 6 + 8 + 2 + 12;
  for (std::size_t size = 0; size < kEndOfEntry; ++size) {
    EXPECT_FALSE(exif_orientation(view_of(data).first(size)).has_value()) << size;
  }
  for (std::size_t at = 6; at < 26; ++at) {  // every byte of it lies
    Data broken = data;
    broken[at] ^= 0xff;
    (void)exif_orientation(view_of(broken));
  }
  Data far = data;
  far[10] = 0xff;
  far[13] = 0xff;
  EXPECT_FALSE(exif_orientation(view_of(far)).has_value());
  Data many = data;
  many[20] = 2;  // two values: not an orientation
  EXPECT_FALSE(exif_orientation(view_of(many)).has_value());
  Data rational = data;
  rational[18] = 5;
  EXPECT_FALSE(exif_orientation(view_of(rational)).has_value());
}

TEST(Exif, XmpSpeaksWhenExifDoesNot) {
  EXPECT_EQ(xmp_orientation(view_of(R"(<a tiff:Orientation="8"/>)")), 8);
  EXPECT_EQ(xmp_orientation(view_of("<tiff:Orientation>3</tiff:Orientation>")), 3);
  EXPECT_EQ(xmp_orientation(view_of("tiff:Orientation= tiff:Orientation>5")), 5);
  EXPECT_FALSE(xmp_orientation(view_of("tiff:Orientation=\"")).has_value());
  EXPECT_FALSE(xmp_orientation({}).has_value());

  const Data exif = test::exif(6);
  const auto xmp = view_of("tiff:Orientation>3");
  EXPECT_EQ(orientation_of(Metadata{.exif = view_of(exif), .xmp = xmp}), orientation_of(6));
  EXPECT_EQ(orientation_of(Metadata{.exif = {}, .xmp = xmp}), orientation_of(3));
  EXPECT_TRUE(orientation_of(Metadata{}).upright());
}

TEST(Exif, ValuesOutsideTheEightMeanUpright) {
  for (const int value : {-1, 0, 1, 9, 255}) {
    EXPECT_TRUE(orientation_of(value).upright());
  }
}

}  // namespace
}  // namespace fovea::image
