// Lists of lines, as Windows writes them, too.
#include "io/line_reader.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"

namespace fovea::io {
namespace {

using Lines = std::vector<std::string>;
using std::string_view_literals::operator""sv;

class LineReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "fovea-list-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Lines read(std::string_view content, char delimiter = '\n',
                           std::size_t max_bytes = LineReader::kMaxBytes) const {
    const std::string path = folder_ / "list";
    std::ofstream(path, std::ios::binary) << content;
    LineReader reader(path, delimiter, max_bytes);
    Lines lines;
    for (std::string line; reader.next(line);) {
      lines.push_back(line);
      EXPECT_EQ(reader.number(), lines.size());
    }
    return lines;
  }

  [[nodiscard]] std::string error(std::string_view content,
                                  std::size_t max_bytes = LineReader::kMaxBytes) const {
    try {
      (void)read(content, '\n', max_bytes);
    } catch (const Error& problem) {
      return problem.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(LineReaderTest, TakesOffWhatWindowsAdds) {
  const Lines lines{"a b", "", "c"};
  EXPECT_EQ(read("a b\n\nc"), lines);
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "a b\r\n\r\nc\r\n"),
            lines);
  EXPECT_EQ(read(""), Lines{});
  EXPECT_EQ(read("\xef\xbb\xbf"), Lines{});
  EXPECT_EQ(read("\xef\xbb\xbf\n"), Lines{""});
  // Once, and only at the beginning; one return of a line's end.
  EXPECT_EQ(read("\xef\xbb\xbf\xef\xbb\xbf"
                 "a\n\xef\xbb\xbf"
                 "b\r\r\n"),
            (Lines{"\xef\xbb\xbf"
                   "a",
                   "\xef\xbb\xbf"
                   "b\r"}));
  EXPECT_EQ(read("\xef\xbb"), Lines{"\xef\xbb"});
}

TEST_F(LineReaderTest, TakesNamesBetweenZerosAsTheyAre) {
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "a\r\0b\0"sv,
                 '\0'),
            (Lines{"\xef\xbb\xbf"
                   "a\r",
                   "b"}));
  EXPECT_EQ(read("a\0b\0c\0"sv, '\0'), (Lines{"a", "b", "c"}));
}

TEST_F(LineReaderTest, NamesTheEncodingThatItDoesNotRead) {
  const std::string_view utf16[] = {
      "\xff\xfe"
      "a\0\n\0"sv,
      "\xfe\xff"
      "\0a\0\n"sv,
      "a\0b\0\n\0"sv, "\0a\0b\0\n"sv, "\xff\xfe\x42\x30\n\0"sv};
  for (const std::string_view text : utf16) {
    EXPECT_EQ(error(text), "the list is in UTF-16; expected UTF-8: save it again in UTF-8");
  }
  const std::string_view utf32[] = {"\xff\xfe\0\0a\0\0\0"sv, "\0\0\xfe\xff\0\0\0a"sv,
                                    "a\0\0\0\n\0\0\0"sv, "\0\0\0a\0\0\0\n"sv};
  for (const std::string_view text : utf32) {
    EXPECT_EQ(error(text), "the list is in UTF-32; expected UTF-8: save it again in UTF-8");
  }
  // Names of files may begin with any bytes.
  EXPECT_EQ(read("\xff\xfe.jpg\n"), Lines{"\xff\xfe.jpg"});
  EXPECT_EQ(read("a\0long name\n"sv), Lines{std::string("a\0long name"sv)});
}

TEST_F(LineReaderTest, RefusesLinesThatAreTooLong) {
  EXPECT_EQ(read("1234\n12345678\n", '\n', 8), (Lines{"1234", "12345678"}));
  const std::string expected = "line 2 is too long (more than 8 bytes)";
  EXPECT_EQ(error("1234\n123456789\n", 8), expected);
  EXPECT_EQ(error("1234\n123456789", 8), expected);
  EXPECT_EQ(error("1234\n" + std::string(1 << 20, 'x'), 8), expected);
}

}  // namespace
}  // namespace fovea::io
