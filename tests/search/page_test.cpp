// The page: escaping, placeholders, thumbnails; and that nothing in a name can leave its place.
#include "search/page.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "fovea/search.hpp"
#include "image/decode.hpp"
#include "search/thumbnail.hpp"

namespace fovea::search {
namespace {
namespace fs = std::filesystem;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++number;
  }
  return number;
}

std::string bmp(int width, int height) {
  const auto word = [](int value) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>(value >> shift & 0xff);
    }
    return bytes;
  };
  const int stride = (width * 3 + 3) / 4 * 4;
  std::string file = "BM" + word(54 + stride * height) + word(0) + word(54) + word(40) +
                     word(width) + word(height) + std::string("\x01\0\x18\0", 4);
  file += word(0) + word(stride * height) + word(0) + word(0) + word(0) + word(0);
  file += std::string(static_cast<std::size_t>(stride * height), '\x80');
  return file;
}

TEST(Base64, KnownVectors) {  // RFC 4648, section 10
  const auto encode = [](std::string_view text) {
    return base64({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
  };
  EXPECT_EQ(encode(""), "");
  EXPECT_EQ(encode("f"), "Zg==");
  EXPECT_EQ(encode("fo"), "Zm8=");
  EXPECT_EQ(encode("foo"), "Zm9v");
  EXPECT_EQ(encode("foob"), "Zm9vYg==");
  EXPECT_EQ(encode("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encode("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode("\xfb\xff"), "+/8=");
}

TEST(Thumbnail, IsShrunkToItsLongestSide) {
  const std::string file = bmp(1000, 10);
  const Thumbnail thumbnail = make_thumbnail(std::as_bytes(std::span(file)));
  EXPECT_EQ(thumbnail.error, "");
  EXPECT_EQ(thumbnail.width, kThumbnailSide);
  EXPECT_EQ(thumbnail.height, 3);
  EXPECT_TRUE(thumbnail.data_uri.starts_with("data:image/jpeg;base64,/9j/"));
  const std::string small = bmp(5, 7);
  const Thumbnail same = make_thumbnail(std::as_bytes(std::span(small)));
  EXPECT_EQ(same.width, 5);
  EXPECT_EQ(same.height, 7);
  EXPECT_NE(make_thumbnail({}).error, "");
}

TEST(Html, Escapes) {
  EXPECT_EQ(html_escape("<script>'\"&\n\x7f"), "&lt;script&gt;&#39;&quot;&amp;\\x0a\\x7f");
  EXPECT_EQ(html_escape("caf\xc3\xa9"), "caf\xc3\xa9");
}

TEST(Html, NamesStayTextWhereverTheyAppear) {
  const std::string evil = "x/\"><script>alert('1')</script>\n&.jpg";
  Page page{evil, evil, {}};
  page.sections.push_back({PagePicture{evil, {}, {}}, {{evil, 0.98765, {}}, {"b", -0.5, {}}}});
  page.sections.push_back({std::nullopt, {{evil, 1.0, {}}}});
  const std::string html = render_page(
      page, {{evil, {"data:image/jpeg;base64,AAAA", 4, 3, ""}}, {"b", {"", 0, 0, "<b>: gone"}}});
  EXPECT_EQ(count(html, "<script"), 0U);
  EXPECT_EQ(count(html, "alert(&#39;1&#39;)"), 1 + 1 + 1 + 3 * 3U);  // 3 pictures, 3 places each
  EXPECT_EQ(count(html, "<img "), 3U);
  EXPECT_EQ(count(html, " alt=\"x/&quot;&gt;"), 3U);
  EXPECT_EQ(count(html, "aria-label=\"b: no picture, &lt;b&gt;: gone\""), 1U);
  EXPECT_EQ(count(html, "0.9877"), 1U);
  EXPECT_EQ(count(html, "-0.5000"), 1U);
  EXPECT_EQ(count(html, "width:0.0%"), 1U);
  EXPECT_EQ(count(html, "http://") + count(html, "https://") + count(html, "url("), 0U);
  EXPECT_THROW((void)render_page(page, {}), Error);
}

TEST(Html, WritePageReadsPicturesAndCountsThoseItCannot) {
  std::string pattern = (fs::temp_directory_path() / "fovea-page-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  const std::string odd = "odd \xff\\ name.bmp";
  std::ofstream(folder / odd, std::ios::binary) << bmp(20, 10);
  std::ofstream(folder / "other.bmp", std::ios::binary) << bmp(30, 10);
  Page page{"t", "d", {}};
  page.sections.push_back({PagePicture{"elsewhere", {}, folder / "other.bmp"},
                           {{source_name(odd), 0.5, {}}, {"absent.jpg", 0.25, {}}}});
  EXPECT_EQ(write_page(folder / "page.html", page, folder, 2), 1);
  std::ifstream stream(folder / "page.html", std::ios::binary);
  const std::string html{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(count(html, "<img src=\"data:image/jpeg;base64,"), 2U);
  EXPECT_EQ(count(html, "width=\"30\" height=\"10\""), 1U);
  EXPECT_EQ(count(html, "alt=\"odd \\xff\\\\ name.bmp\" width=\"20\" height=\"10\""), 1U);
  EXPECT_EQ(count(html, "aria-label=\"absent.jpg: no picture, "), 1U);
  EXPECT_THROW((void)write_page(folder / "no/page.html", page, folder), Error);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace fovea::search
