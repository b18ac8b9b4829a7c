// Numbers, letters and parts of URLs in texts.
#include "core/text.hpp"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(CoreText, IsANumberAsAWholeAlone) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<std::uint64_t>("ff", 16), 255U);
  for (const char* const text : {"", " 1", "1 ", "1.5", "+1", "x", "99999999999"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<std::uint64_t>("-1"), std::nullopt);
}

TEST(CoreText, HasLettersInLowerCase) {
  EXPECT_EQ(lower_case("Content-LENGTH 2"), "content-length 2");
}

TEST(CoreText, IsPercentEncoded) {
  EXPECT_EQ(percent_encode("/a b/%41\"#?\xff\xc3\xa9.jpg", "/"),
            "/a%20b/%2541%22%23%3F%FF%C3%A9.jpg");
  EXPECT_EQ(percent_encode("refs/pr/1"), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace fovea
