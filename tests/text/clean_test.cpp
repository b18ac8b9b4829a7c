// Lower case, punctuation and white space, against cases worked out by hand.
// tests/text/test_tokenizer.py compares all characters with tokenizers' and Python's.
#include "text/clean.hpp"

#include <gtest/gtest.h>

#include "text/case_tables.hpp"

namespace fovea::text {
namespace {

TEST(CleanTest, CharactersAreLoweredOneByOne) {
  EXPECT_EQ(lower("A Red BICYCLE, 42"), "a red bicycle, 42");
  EXPECT_EQ(lower("КОТ ÅÉÑ ẞ Ǆǅ"), "кот åéñ ß ǆǆ");
  EXPECT_EQ(lower("İI"), "i\u0307i");                        // two characters
  EXPECT_EQ(lower("ΟΔΥΣΣΕΥΣ"), "οδυσσευσ");                  // no final sigma
  EXPECT_EQ(lower("\U00010400\u1c90"), "\U00010428\u10d0");  // beyond 16 bits; from another block
  EXPECT_EQ(lower("ĀāĂ"), "āāă");                            // large and small letters in turn
  EXPECT_EQ(lower("猫 ǰ ŉ ﬁ"), "猫 ǰ ŉ ﬁ");                  // have no single large letter
  EXPECT_EQ(lower(""), "");
}

TEST(CleanTest, SigmaEndsAWord) {
  EXPECT_EQ(lower_words("ΟΔΥΣΣΕΥΣ"), "οδυσσευς");
  EXPECT_EQ(lower_words("ΣΑΣ ΣΑΣ."), "σας σας.");
  EXPECT_EQ(lower_words("Σ"), "σ");          // no letter before it
  EXPECT_EQ(lower_words("1Σ"), "1σ");        // a digit is no letter
  EXPECT_EQ(lower_words("Α'Σ'"), "α'ς'");    // apostrophes are ignored
  EXPECT_EQ(lower_words("Α'Σ'Α"), "α'σ'α");  // and a letter follows
  EXPECT_EQ(lower_words("A\u0301Σ\u0301"), "a\u0301ς\u0301");
  EXPECT_EQ(lower_words("''Σ"), "''σ");
  EXPECT_EQ(lower_words("猫Σ"), "猫σ");  // a letter without cases
  EXPECT_EQ(lower_words("İΣ"), "i\u0307ς");
}

TEST(CleanTest, OnlyAsciiPunctuationGoes) {
  EXPECT_EQ(without_punctuation(R"(a!"#$%&'()*+,-./b:;<=>?@c[\]^_`d{|}~e)"), "abcde");
  EXPECT_EQ(without_punctuation("¡don’t — «a»…"), "¡don’t — «a»…");
}

TEST(CleanTest, WhiteSpaceIsThatOfPython) {
  EXPECT_EQ(collapse_spaces("  a\t\n\r\v\f b  "), "a b");
  for (const char* space :
       {"\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",
        "\x1f",   " ",      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
        "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
        "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_EQ(collapse_spaces(std::string("a") + space + space + "b" + space), "a b");
  }
  for (const std::string other : {"\u200b", "\ufeff", "\u180e", "\x1b", "\x7f", "▁", "\u2800"}) {
    EXPECT_EQ(collapse_spaces("a" + other + "b" + other), "a" + other + "b" + other);
  }
  EXPECT_EQ(collapse_spaces(std::string("a\0 \0b", 5)), std::string("a\0 \0b", 5));
  EXPECT_EQ(collapse_spaces(" \n "), "");
}

TEST(CleanTest, CanonicalizeDoesAllInOrder) {
  EXPECT_EQ(canonicalize("  Don't_STOP !  Now..."), "dontstop now");
  EXPECT_EQ(canonicalize("..."), "");
}

TEST(CleanTest, TablesAreInOrder) {
  const auto expect_order = [](const auto& ranges) {
    ASSERT_FALSE(ranges.empty());
    for (std::size_t index = 0; index < ranges.size(); ++index) {
      EXPECT_LE(ranges[index].first, ranges[index].last);
      EXPECT_TRUE(index == 0 || ranges[index - 1].last < ranges[index].first) << index;
    }
  };
  expect_order(lower_ranges());
  expect_order(sigma_ranges());
}

}  // namespace
}  // namespace fovea::text
