// Names of files survive the way into UTF-8 text and back.
#include "io/text.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace fovea::io {
namespace {

TEST(Text, EscapeIsReversibleAndUtf8) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) {
    every_byte += static_cast<char>(byte);
  }
  for (const std::string& name :
       {std::string("photos/a.jpg"), std::string("caf\xc3\xa9.jpg"), std::string("caf\xe9.jpg"),
        std::string("back\\slash"), std::string("\\x41"), std::string("new\nline"),
        std::string("\xed\xa0\x80"), std::string("\xc0\xaf"), std::string("\xf0\x9f\x98"),
        every_byte}) {
    EXPECT_TRUE(is_utf8(escape(name)));
    EXPECT_EQ(unescape(escape(name)), name);
  }
  EXPECT_EQ(escape("caf\xc3\xa9.jpg"), "caf\xc3\xa9.jpg");
  EXPECT_EQ(escape("caf\xe9.jpg"), "caf\\xe9.jpg");
}

TEST(Text, UnescapeRejectsMalformedEscapes) {
  for (const char* text : {"\\", "\\x", "\\x4", "\\xZZ", "\\n"}) {
    EXPECT_THROW((void)unescape(text), Error) << text;
  }
}

TEST(Text, JsonQuote) {
  EXPECT_EQ(json_quote("a\"b\\c\nd\x01"), "\"a\\\"b\\\\c\\nd\\u0001\"");
}

}  // namespace
}  // namespace fovea::io
