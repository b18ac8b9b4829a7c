// The page: escaping, placeholders, thumbnails; and that nothing in a name can leave its place.
#include "search/page.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  const Thumbnail thumbnail = make_thumbnail(std::as_bytes(std::span(file)), 288);
  EXPECT_EQ(thumbnail.error, "");
  EXPECT_EQ(thumbnail.width, 288);
  EXPECT_EQ(thumbnail.height, 3);
  EXPECT_TRUE(thumbnail.data_uri.starts_with("data:image/jpeg;base64,/9j/"));
  const std::string small = bmp(5, 7);
  const Thumbnail same = make_thumbnail(std::as_bytes(std::span(small)), 288);
  EXPECT_EQ(same.width, 5);
  EXPECT_EQ(same.height, 7);
  EXPECT_NE(make_thumbnail({}, 288).error, "");
}

PagePicture picture(const std::string& source, std::optional<double> score = {}) {
  PagePicture picture;
  picture.photo.source = source;
  picture.photo.file = source;
  picture.score = score;
  return picture;
}

PageSection section(std::optional<PagePicture> query, std::vector<PagePicture> pictures) {
  return {"", "", std::move(query), std::move(pictures)};
}

TEST(Html, NamesStayTextWhereverTheyAppear) {
  const std::string evil = "x/\"><script>alert('1')</script>\n&.jpg";
  Page page{evil, evil, {}};
  page.sections.push_back(section(picture(evil), {picture(evil, 0.98765), picture("b", -0.5)}));
  page.sections.push_back(section(std::nullopt, {picture(evil, 1.0)}));
  PagePicture labelled = picture(evil);
  labelled.label = evil;
  labelled.facts = {evil};
  page.sections.push_back({evil, evil, std::nullopt, {labelled}});
  const std::string html = render_page(
      page, {{evil, {"data:image/jpeg;base64,AAAA", 4, 3, ""}}, {"b", {"", 0, 0, "<b>: gone"}}},
      "/folder");
  EXPECT_EQ(count(html, "<script"), 0U);
  // Title, heading, description; 4 pictures with 3 places each; a label, a fact and two headings.
  EXPECT_EQ(count(html, "alert(&#39;1&#39;)"), 1 + 1 + 1 + 4 * 3U + 4);
  EXPECT_EQ(count(html, "href=\"file:///"), 5U);
  EXPECT_EQ(count(html, "%22%3E%3Cscript%3Ealert%28%271%27%29%3C/script%3E%0A%26.jpg\""), 4U);
  EXPECT_EQ(count(html, "<img "), 4U);
  EXPECT_EQ(count(html, " alt=\"x/&quot;&gt;"), 4U);
  EXPECT_EQ(count(html, "aria-label=\"b: no picture, &lt;b&gt;: gone\""), 1U);
  EXPECT_EQ(count(html, "0.9877"), 1U);
  EXPECT_EQ(count(html, "-0.5000"), 2U);  // and in the footer
  EXPECT_EQ(count(html, "http://") + count(html, "https://") + count(html, "url("), 0U);
  EXPECT_THROW((void)render_page(page, {}, "/folder"), Error);
}

TEST(Html, BarsRunFromTheLowestScoreOfThePageToTheHighest) {
  Page page{"t", "d", {}};
  page.sections.push_back(section(std::nullopt, {picture("a", 1), picture("a", 0.98)}));
  page.sections.push_back(section(std::nullopt, {picture("a", 0.96), picture("a", 0.999996)}));
  const Thumbnails thumbnails{{"a", {"data:image/jpeg;base64,AAAA", 4, 3, ""}}};
  const std::string html = render_page(page, thumbnails, "/");
  EXPECT_EQ(count(html, "width:100.0%"), 2U);
  EXPECT_EQ(count(html, "width:50.0%"), 1U);
  EXPECT_EQ(count(html, "width:0.0%"), 1U);
  EXPECT_EQ(count(html, ">0.999996<"), 1U);  // only 1 is shown as 1
  EXPECT_EQ(count(html, "Bars run from 0.9600, the lowest on this page, to 1.0000, the highest."),
            1U);
  page.sections = {section(std::nullopt, {picture("a", 1), picture("a", 1)})};
  EXPECT_EQ(count(render_page(page, thumbnails, "/"), "width:100.0%"), 2U);
  // Of photos and words scores are low, also the highest.
  page.sections = {
      section(std::nullopt, {picture("a", 0.12), picture("a", -0.03), picture("a", 0.045)})};
  const std::string words = render_page(page, thumbnails, "/");
  EXPECT_EQ(count(words, "width:100.0%"), 1U);
  EXPECT_EQ(count(words, "width:50.0%"), 1U);
  EXPECT_EQ(count(words, "width:0.0%"), 1U);
}

TEST(Html, LinksLeadBelowThePageOrToAbsolutePaths) {
  Page page{"t", "d", {}};
  std::vector<PagePicture> pictures{picture("/p/q/a b.jpg"), picture("/p/c.jpg"), picture("/x/d"),
                                    picture("/p/q#r/../q/e"), picture("/p/q/x.tar#m.jpg")};
  pictures[2].photo.error = "gone";
  pictures[4].photo.is_member = true;
  Thumbnails thumbnails;
  for (const PagePicture& each : pictures) {
    thumbnails[each.photo.file] = {"data:image/jpeg;base64,AAAA", 4, 3, ""};
  }
  page.sections.push_back(section(std::nullopt, pictures));
  const std::string html = render_page(page, thumbnails, "/p/q");
  EXPECT_EQ(count(html, "<a href=\"./a%20b.jpg\">"), 1U);
  EXPECT_EQ(count(html, "<a href=\"file:///p/c.jpg\">"), 1U);
  EXPECT_EQ(count(html, "<a href=\"./e\">"), 1U);
  EXPECT_EQ(count(html, "<a "), 3U);
  EXPECT_EQ(count(html, "</a>"), 3U);
}

TEST(Html, TheEndOfALongSectionIsAList) {
  Page page{"t", "d", {}};
  std::vector<PagePicture> pictures;
  for (int index = 0; index < 200; ++index) {
    pictures.push_back(picture(fmt::format("p{}", index), 0.5));
  }
  page.sections.push_back(section(std::nullopt, pictures));
  const std::vector<fs::path> shown = page_files(page);
  EXPECT_EQ(shown.size(), 60U);
  Thumbnails thumbnails;
  for (const fs::path& file : shown) {
    thumbnails[file] = {"data:image/jpeg;base64,AAAA", 4, 3, ""};
  }
  const std::string html = render_page(page, thumbnails, "/");
  EXPECT_EQ(count(html, "<img "), 60U);
  EXPECT_EQ(count(html, "<summary>140 more"), 1U);
  EXPECT_EQ(count(html, "<bdi>p199</bdi>"), 1U);
  EXPECT_GT(thumbnail_side(10), thumbnail_side(10'000));
}

TEST(Html, WritePageReadsPicturesAndCountsThoseItCannot) {
  std::string pattern = (fs::temp_directory_path() / "fovea-page-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  const std::string odd = "odd \xff\\ name.bmp";
  std::ofstream(folder / odd, std::ios::binary) << bmp(20, 10);
  std::ofstream(folder / "other.bmp", std::ios::binary) << bmp(30, 10);
  Page page{"t", "d", {}};
  PagePicture query = picture("elsewhere");
  query.photo.file = folder / "other.bmp";
  PagePicture named = picture(source_name(odd), 0.5);
  named.photo.file = folder / odd;
  page.sections.push_back(section(query, {named, picture("absent.jpg", 0.25)}));
  EXPECT_EQ(write_page(folder / "page.html", page, 2), 1);
  std::ifstream stream(folder / "page.html", std::ios::binary);
  const std::string html{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(count(html, "<img src=\"data:image/jpeg;base64,"), 2U);
  EXPECT_EQ(count(html, "width=\"30\" height=\"10\""), 1U);
  EXPECT_EQ(count(html, "alt=\"odd \\xff\\\\ name.bmp\" width=\"20\" height=\"10\""), 1U);
  EXPECT_EQ(count(html, "<a href=\"./odd%20%FF%5C%20name.bmp\">"), 1U);
  EXPECT_EQ(count(html, "aria-label=\"absent.jpg: no picture, "), 1U);
  EXPECT_THROW((void)write_page(folder / "no/page.html", page), Error);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace fovea::search
