// Names of files survive the way into UTF-8 text and back.
#include "io/text.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "io/html.hpp"

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

TEST(Text, PrintableKeepsLettersOfAllKinds) {
  for (const std::string_view text :
       {"plain", "caf\u00e9 \u6771\u4eac \u0645\u0631\u062d\u0628\u0627",
        "\U0001f469\u200d\U0001f52c", "a\\b"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_json(text), text);
  }
}

TEST(Text, PrintableShowsWhatATerminalWouldObeyOrHide) {
  struct Case {
    std::string_view text;
    std::string_view shown;
    std::string_view json;
  };
  for (const Case& expected : std::initializer_list<Case>{
           {"\x1b]0;x\x07", "\\x1b]0;x\\x07", "\\u001b]0;x\\u0007"},
           {"\x7f", "\\x7f", "\\u007f"},
           {"\u009b31m", "\\u009b31m", "\\u009b31m"},
           {"\u0080\u009f", "\\u0080\\u009f", "\\u0080\\u009f"},
           {"\u00a0", "\u00a0", "\u00a0"},
           {"\u061c\u200e\u200f", "\\u061c\\u200e\\u200f", "\\u061c\\u200e\\u200f"},
           {"\u202a\u202e\u2066\u2069", "\\u202a\\u202e\\u2066\\u2069",
            "\\u202a\\u202e\\u2066\\u2069"},
           {"\u2028\u2029\u200b\ufeff", "\\u2028\\u2029\\u200b\\ufeff",
            "\\u2028\\u2029\\u200b\\ufeff"},
       }) {
    EXPECT_EQ(printable(expected.text), expected.shown);
    EXPECT_EQ(printable_json(expected.text), expected.json);
  }
  EXPECT_EQ(printable("a\nb\r\t"), "a\\x0ab\\x0d\\x09");
  EXPECT_EQ(printable_json("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
  EXPECT_EQ(printable("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");  // alone: no UTF-8
}

TEST(Text, PrintableCutsTheMiddle) {
  EXPECT_EQ(printable("0123456789", 10), "0123456789");
  EXPECT_EQ(printable("0123456789a", 10), "01234 ... 6789a");
  EXPECT_EQ(printable("\u6771\u4eac\u6771\u4eac", 2),
            "\u6771 ... \u4eac");  // characters, not bytes
  EXPECT_LT(printable(std::string(1 << 20, '\xff')).size(), 5 * kMaxMessageCharacters);
}

TEST(Html, EscapesMarkupAndControlCharacters) {
  EXPECT_EQ(html_escape("<script>'\"&\n\x7f"), "&lt;script&gt;&#39;&quot;&amp;\\x0a\\x7f");
  EXPECT_EQ(html_escape("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_NE(html_head("a<b", "").find("<title>a&lt;b</title>"), std::string::npos);
}

}  // namespace
}  // namespace fovea::io
