// The orientation in EXIF and XMP metadata, hostile ones included.
#include "image/exif.hpp"

#include <cstdint>
#include <string>
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

TEST(Exif, HasNoneWhenItEndsBeforeItsEntryDoes) {
  const Data data = test::exif(6);
  constexpr std::size_t kHeader = 6 + 8;
  constexpr std::size_t kEndOfEntry = kHeader + 2 + 12;
  EXPECT_FALSE(exif_orientation(view_of(data).first(6)).has_value());
  for (std::size_t size = kHeader; size < kEndOfEntry; ++size) {
    EXPECT_FALSE(exif_orientation(view_of(data).first(size)).has_value()) << size;
  }
  EXPECT_EQ(exif_orientation(view_of(data).first(9)), 1);  // no EXIF: XMP is not asked, either
  EXPECT_EQ(exif_orientation(view_of(data).first(kHeader - 1)), 1);
  for (std::size_t at = 6; at < 26; ++at) {  // every byte of it lies
    Data broken = data;
    broken[at] ^= 0xff;
    (void)exif_orientation(view_of(broken));
  }
  Data far = data;
  far[10] = 0xff;
  far[13] = 0xff;
  EXPECT_FALSE(exif_orientation(view_of(far)).has_value());
}

TEST(Exif, TakesTheFirstNumberOfAnyTypeThatHoldsNumbers) {
  const auto with = [](std::uint8_t type, std::uint8_t count) {
    Data data = test::exif(6);
    data[18] = type;
    data[20] = count;
    return exif_orientation(view_of(data));
  };
  EXPECT_EQ(with(3, 2), 6);              // SHORT, twice
  EXPECT_EQ(with(4, 1), 6);              // LONG
  EXPECT_EQ(with(13, 1), 6);             // IFD
  EXPECT_EQ(with(9, 1), 6);              // SLONG
  EXPECT_EQ(with(1, 1), 1);              // BYTE: no number to Pillow
  EXPECT_EQ(with(7, 1), 1);              // UNDEFINED
  EXPECT_EQ(with(11, 1), 1);             // the bits of a FLOAT near 0
  EXPECT_EQ(with(14, 1), std::nullopt);  // of a type that is passed over
  EXPECT_EQ(with(3, 0), std::nullopt);
  EXPECT_EQ(with(5, 1), 1);             // RATIONAL of what lies at byte 6
  EXPECT_EQ(with(5, 9), std::nullopt);  // of more than the file holds
}

// A directory that leads to one of EXIF with DateTimeOriginal.
std::string exif_with_date(std::string_view date) {
  const auto number = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int index = 0; index < bytes; ++index) {
      text += static_cast<char>(value >> (8 * index) & 0xff);
    }
    return text;
  };
  const auto entry = [&](std::uint32_t tag, std::uint32_t type, std::uint32_t count,
                         std::uint32_t value) {
    return number(tag, 2) + number(type, 2) + number(count, 4) + number(value, 4);
  };
  constexpr std::uint32_t kSecond = 8 + 2 + 12 + 4;
  constexpr std::uint32_t kDate = kSecond + 2 + 12 + 4;
  return std::string("II\x2a\0", 4) + number(8, 4) + number(1, 2) + entry(0x8769, 4, 1, kSecond) +
         number(0, 4) + number(1, 2) +
         entry(0x9003, 2, static_cast<std::uint32_t>(date.size()), kDate) + number(0, 4) +
         std::string(date);
}

TEST(Exif, CaptureDateOfEveryContainer) {
  const std::string tiff = exif_with_date(std::string_view("2024:05:01 12:30:59\0", 20));
  const std::string jpeg(
      "\xff\xd8\xff\xe1\x00\x20"
      "Exif\0\0",
      12);
  const std::string expected = "2024-05-01 12:30:59";
  EXPECT_EQ(capture_date(view_of(tiff)), expected);
  EXPECT_EQ(capture_date(view_of(jpeg + tiff)), expected);
  EXPECT_EQ(capture_date(view_of("\x89PNG....eXIf" + tiff)), expected);
  const std::string name("....infe....Exif\0\0", 18);  // of an item of HEIC, whose data comes later
  EXPECT_EQ(capture_date(view_of(name + "....mdat....Exif" + std::string(2, '\0') + tiff)),
            expected);
  EXPECT_EQ(capture_date(view_of(name + "....mdat...." + tiff)), expected);
  const std::string undated = exif_with_date("    :  :     :  :  ");
  EXPECT_EQ(capture_date(view_of(undated + tiff)), expected);
  EXPECT_EQ(capture_date(view_of("no EXIF")), "");
  for (std::size_t size = 0; size < tiff.size() - 1; ++size) {  // the NUL is not needed
    EXPECT_EQ(capture_date(view_of(std::string_view(tiff).substr(0, size))), "") << size;
  }
  for (std::size_t at = 0; at < tiff.size() - 20; ++at) {  // every byte of it lies
    std::string broken = tiff;
    broken[at] = static_cast<char>(~broken[at]);
    const std::string date = capture_date(view_of(broken));
    EXPECT_TRUE(date.empty() || date == expected) << at << ": " << date;
  }
}

TEST(Exif, CaptureDateEndsItsSearch) {
  std::string hostile;
  while (hostile.size() < std::size_t{1} << 16) {  // each begins a TIFF, whose directory is large
    hostile += "II\x2a";
    hostile += '\0';
  }
  EXPECT_EQ(capture_date(view_of(hostile + exif_with_date("2024:05:01 12:30:59"))), "");
}

TEST(Exif, WhatIsNoDateIsNotShown) {
  for (const std::string_view text : {"0000:00:00 00:00:00", "    :  :     :  :  ", "2024:05:01",
                                      "2024:05:01 12:30:5x", "<script>alert(1)</s"}) {
    EXPECT_EQ(capture_date(view_of(exif_with_date(text))), "") << text;
  }
}

TEST(Exif, XmpSpeaksWhenExifDoesNot) {
  EXPECT_EQ(xmp_orientation(view_of(R"(<a tiff:Orientation="8"/>)")), 8);
  EXPECT_EQ(xmp_orientation(view_of("<tiff:Orientation>3</tiff:Orientation>")), 3);
  EXPECT_EQ(xmp_orientation(view_of("tiff:Orientation= tiff:Orientation>5")), 5);
  EXPECT_FALSE(xmp_orientation(view_of("tiff:Orientation=\"")).has_value());
  EXPECT_FALSE(xmp_orientation({}).has_value());

  const Data exif = test::exif(6);
  const auto xmp = view_of("tiff:Orientation>3");
  EXPECT_EQ(to_orientation(Metadata{.exif = view_of(exif), .xmp = xmp}), to_orientation(6));
  EXPECT_EQ(to_orientation(Metadata{.exif = {}, .xmp = xmp}), to_orientation(3));
  EXPECT_TRUE(to_orientation(Metadata{}).upright());
}

TEST(Exif, ValuesOutsideTheEightMeanUpright) {
  for (const int value : {-1, 0, 1, 9, 255}) {
    EXPECT_TRUE(to_orientation(value).upright());
  }
}

}  // namespace
}  // namespace fovea::image
