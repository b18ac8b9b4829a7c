// Decoding: what is read exactly, what is refused and in which words, and from many threads.
#include "image/decode.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "image/encode.hpp"
#include "image/exif.hpp"
#include "image/resize.hpp"

namespace fovea::image {
namespace {

using test::Data;
using test::noise;

std::span<const std::byte> bytes_of(const Data& data) {
  return std::as_bytes(std::span(data));
}

/// The message that decode refuses `data` with, or "" when it does not.
std::string refusal(const Data& data, const DecodeOptions& options = {}) {
  std::string decoded;
  std::string resized;
  try {
    (void)decode(bytes_of(data), options);
  } catch (const Error& error) {
    decoded = error.what();
  }
  std::vector<std::uint8_t> out(8 * 8 * 3);
  try {
    decode_resized(bytes_of(data), 8, 8, Resample::kBilinear, options, out);
  } catch (const Error& error) {
    resized = error.what();
  }
  EXPECT_EQ(decoded, resized);
  return decoded;
}

void expect_refused(const Data& data, const std::string& words, const DecodeOptions& options = {}) {
  EXPECT_NE(refusal(data, options).find(words), std::string::npos)
      << "expected \"" << words << "\" in: " << refusal(data, options);
}

std::map<std::string, Data> one_of_each(int width = 40, int height = 30) {
  const Image image = noise(width, height);
  return {{"JPEG", test::jpeg(image)}, {"PNG", test::png(image)},
          {"WebP", test::webp(image)}, {"GIF", test::gif(width, height)},
          {"BMP", test::bmp(image)},   {"TIFF", test::tiff(image)}};
}

TEST(Decode, ReadsLosslessFormatsExactly) {
  const Image image = noise(37, 21);
  for (const Data& data :
       {test::png(image), test::webp(image), test::bmp(image), test::tiff(image)}) {
    const Image decoded = decode(bytes_of(data));
    ASSERT_EQ(decoded.width, 37);
    ASSERT_EQ(decoded.height, 21);
    EXPECT_EQ(std::memcmp(decoded.pixels.data(), image.pixels.data(), image.pixels.size()), 0);
  }
  const Image gif = decode(bytes_of(test::gif(5, 3)));
  for (std::size_t at = 0; at < gif.pixels.size(); at += 3) {
    EXPECT_EQ(gif.pixels[at], 70);
    EXPECT_EQ(gif.pixels[at + 1], 80);
    EXPECT_EQ(gif.pixels[at + 2], 90);
  }
}

TEST(Decode, ResizedEqualsDecodeThenResize) {
  for (const auto& [format, data] : one_of_each(133, 70)) {
    for (const Resample filter : {Resample::kBilinear, Resample::kBicubic}) {
      const Image image = decode(bytes_of(data));
      std::vector<std::uint8_t> expected(50 * 60 * 3);
      std::vector<std::uint8_t> got(expected.size());
      resize(image, 50, 60, filter, expected);
      const Size size = decode_resized(bytes_of(data), 50, 60, filter, {}, got);
      EXPECT_EQ(size, (Size{133, 70})) << format;
      EXPECT_EQ(got, expected) << format;
    }
  }
}

TEST(Decode, OrientsByExifUnlessToldNotTo) {
  const Image stored = decode(bytes_of(test::jpeg(noise(40, 24))));
  for (int value = 1; value <= 8; ++value) {
    const Data data = test::jpeg(noise(40, 24), value);
    const Image upright = decode(bytes_of(data));
    EXPECT_EQ(upright.width, value >= 5 ? 24 : 40);
    Image copy(stored.width, stored.height);
    std::memcpy(copy.pixels.data(), stored.pixels.data(), stored.pixels.size());
    const Image expected = oriented(std::move(copy), to_orientation(value));
    EXPECT_EQ(std::memcmp(upright.pixels.data(), expected.pixels.data(), expected.pixels.size()),
              0);

    const Image as_stored = decode(bytes_of(data), {.apply_orientation = false});
    EXPECT_EQ(std::memcmp(as_stored.pixels.data(), stored.pixels.data(), stored.pixels.size()), 0);

    std::vector<std::uint8_t> out(9 * 7 * 3);
    std::vector<std::uint8_t> wanted(out.size());
    const Size size = decode_resized(bytes_of(data), 9, 7, Resample::kBicubic, {}, out);
    EXPECT_EQ(size, (Size{upright.width, upright.height}));
    resize(upright, 9, 7, Resample::kBicubic, wanted);
    EXPECT_EQ(out, wanted) << "orientation " << value;
  }
}

TEST(Decode, EachOrientationMovesTheStoredCorner) {
  // Where the stored image's first pixel lies in the upright one of 2 columns and 3 rows, or 3
  // and 2.
  struct Corner {
    int x;
    int y;
  };
  constexpr Corner kCorners[] = {{0, 0}, {1, 0}, {1, 2}, {0, 2}, {0, 0}, {2, 0}, {2, 1}, {0, 1}};
  for (int value = 1; value <= 8; ++value) {
    Image image(2, 3);
    std::memset(image.pixels.data(), 0, image.pixels.size());
    image.pixels[0] = 255;
    const Image upright = oriented(std::move(image), to_orientation(value));
    const Corner corner = kCorners[value - 1];
    EXPECT_EQ(upright.pixels[static_cast<std::size_t>(corner.y * upright.width + corner.x) * 3],
              255)
        << "orientation " << value;
  }
}

TEST(Decode, NamesFilesThatAreNotRead) {
  const auto data = [](std::string_view text) { return Data(text.begin(), text.end()); };
  using std::string_view_literals::operator""sv;
  const std::pair<std::string_view, const char*> cases[] = {
      {"%PDF-1.7\n"sv, "a PDF document"},
      {"PK\3\4\24\0"sv, "a ZIP archive"},
      {"PAR1\25\0"sv, "a Parquet file"},
      {"\x1f\x8b\x08\0"sv, "gzip"},
      {"8BPS\0\1"sv, "Photoshop"},
      {"\0\0\0\x0cjP  \r\n\x87\n"sv, "JPEG 2000"},
      {"\xff\x0a\xf8\x52"sv, "JPEG XL"},
      {"\0\0\0\x18"
       "ftypjxl \0\0\0\0"sv,
       "JPEG XL"},
      {"\0\0\0\x18"
       "ftypisom\0\0\2\0mp41"sv,
       "a video or sound (MP4)"},
      {"\0\0\0\x14"
       "ftypqt  \0\0\2\0"sv,
       "(MOV)"},
      {"\x1a\x45\xdf\xa3\x9f"sv, "Matroska"},
      {"<?xml version='1.0'?>\n<SVG xmlns='http://www.w3.org/2000/svg'/>"sv, "a drawing (SVG)"},
      {"<!DOCTYPE html>\n<p>Not found"sv, "a web page (HTML)"},
      {"photos/a.jpg\nphotos/b\xc3\xa4.jpg\n"sv, "write @ before its name: @FILE"},
      {"RIFF\0\0\0\0AVI LIST"sv, "a video (AVI)"},
  };
  for (const auto& [content, words] : cases) {
    expect_refused(data(content), words);
  }
}

TEST(Decode, RefusesWhatIsNoImage) {
  expect_refused({}, "empty: 0 bytes");
  expect_refused(Data(1000, 0), "1000 bytes, all zero");
  expect_refused({'h', 'e', 'l', 'l', 'o'}, "a text file, not an image");
  expect_refused({1, 2, 3, 4, 5}, "not an image of a known format");
  expect_refused({0xff}, "starts with ff");
  expect_refused({'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'A', 'V', 'E'},
                 "sound (WAV), which is not supported");
}

TEST(Decode, RefusesEveryTruncationAndSaysSo) {
  for (const auto& [format, data] : one_of_each()) {
    // To where pixels certainly lack; all of these formats end with a few bytes that do not matter.
    for (std::size_t size = 1; size < data.size() * 9 / 10; size += 7) {
      const std::string message =
          refusal(Data(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size)));
      ASSERT_FALSE(message.empty()) << format << " cut to " << size << " of " << data.size();
    }
    const Data half(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(data.size() * 6 / 10));
    EXPECT_EQ(refusal(half).find(format + ":"), 0U) << refusal(half);
    EXPECT_TRUE(refusal(half).find("truncated") != std::string::npos) << refusal(half);
  }
  const Data whole = test::jpeg(noise(64, 64));
  const Data cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2));
  expect_refused(cut, "of 64 rows");
}

TEST(Decode, RefusesBombsFromTheHeader) {
  std::map<std::string, Data> bombs = one_of_each();
  const auto patch = [](Data& data, std::size_t at, std::initializer_list<int> values) {
    for (const int value : values) {
      data.at(at++) = static_cast<std::uint8_t>(value);
    }
  };
  Data& jpeg = bombs["JPEG"];
  for (std::size_t at = 2; at + 9 < jpeg.size(); at += 2 + (jpeg[at + 2] << 8 | jpeg[at + 3])) {
    if (jpeg[at + 1] == 0xc0) {  // start of frame
      patch(jpeg, at + 5, {0xff, 0xdc, 0xff, 0xdc});
      break;
    }
  }
  patch(bombs["GIF"], 6, {0xff, 0xff, 0xff, 0xff});
  patch(bombs["BMP"], 18, {0xa0, 0x86, 1, 0, 0xa0, 0x86, 1, 0});  // 100000 x 100000
  patch(bombs["TIFF"], 18, {0xa0, 0x86, 1, 0});
  patch(bombs["TIFF"], 30, {0xa0, 0x86, 1, 0});
  for (const std::string format : {"JPEG", "GIF", "BMP", "TIFF"}) {
    expect_refused(bombs[format], "more than the limit of 178956970");
  }
  // Formats whose headers are checksummed or packed: the same limit, lowered.
  for (const auto& [format, data] : one_of_each()) {
    EXPECT_EQ(refusal(data, {.max_pixels = 1199}),
              format +
                  ": the header says 40x30 pixels, more than the limit of 1199; --max-pixels "
                  "raises it");
    EXPECT_EQ(refusal(data, {.max_pixels = 1200}), "");
  }
}

TEST(Decode, RefusesLyingHeaders) {
  Data none = test::bmp(noise(4, 4));
  none[18] = 0;
  expect_refused(none, "BMP: the header says 0x4 pixels");
  Data tall = test::bmp(noise(4, 4));
  tall[22] = 9;
  expect_refused(tall, "BMP: truncated after 4 of 9 rows");
  Data depth = test::bmp(noise(4, 4));
  depth[28] = 7;
  expect_refused(depth, "BMP: unsupported 7 bits per pixel");
  Data packing = test::bmp(noise(4, 4));
  packing[30] = 5;
  expect_refused(packing, "BMP: compression 5");
  Data header = test::bmp(noise(4, 4));
  header[14] = 41;
  expect_refused(header, "BMP: unknown kind of header, of 41 bytes");
  Data palette = test::bmp(noise(4, 4));
  palette[28] = 8;
  palette[47] = 2;  // 512 colours
  expect_refused(palette, "BMP: the palette has 512 colours");
  Data far = test::bmp(noise(4, 4));
  far[13] = 0x7f;
  expect_refused(far, "BMP: truncated after 0 of 4 rows");
  Data riff = test::webp(noise(16, 16));
  riff[4] = 0xff;
  expect_refused(riff, "WebP: truncated");
  Data photometric = test::tiff(noise(4, 4));
  photometric[8 + 2 + 4 * 12 + 8] = 8;
  expect_refused(photometric, "TIFF: unsupported layout: photometric 8, 3 samples");
  Data compression = test::tiff(noise(4, 4));
  compression[8 + 2 + 3 * 12 + 8] = 0x65;
  compression[8 + 2 + 3 * 12 + 9] = 0x87;
  expect_refused(compression, "TIFF: ISO JBIG compression (34661) is not supported");
  Data strip = test::tiff(noise(4, 4));
  strip[8 + 2 + 5 * 12 + 10] = 0x70;
  expect_refused(strip, "TIFF:");
}

TEST(Decode, GivesTheSameFromManyThreads) {
  const std::map<std::string, Data> images = one_of_each(133, 70);
  std::map<std::string, std::vector<std::uint8_t>> expected;
  for (const auto& [format, data] : images) {
    expected[format].resize(31 * 33 * 3);
    decode_resized(bytes_of(data), 31, 33, Resample::kBilinear, {}, expected[format]);
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t index = 0; index < wrong.size(); ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; round < 20; ++round) {
        for (const auto& [format, data] : images) {
          std::vector<std::uint8_t> out(31 * 33 * 3);
          decode_resized(bytes_of(data), 31, 33, Resample::kBilinear, {}, out);
          wrong[index] += out != expected.at(format) ? 1 : 0;
          try {
            (void)decode(bytes_of(data).first(data.size() / 2));
            ++wrong[index];
          } catch (const Error&) {
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace fovea::image
