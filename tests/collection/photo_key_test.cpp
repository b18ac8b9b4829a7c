// Names of photos as absolute ones, and keys of contents.
#include "collection/photo_key.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "io/digest.hpp"

namespace fovea::collection {
namespace {

TEST(AbsoluteNameTest, JoinsRelativeNames) {
  EXPECT_EQ(absolute_name("/home/u", "photos/a.jpg"), "/home/u/photos/a.jpg");
  EXPECT_EQ(absolute_name("/home/u", "./photos//a.jpg"), "/home/u/photos/a.jpg");
  EXPECT_EQ(absolute_name("/home/u", "/data/./a.jpg"), "/data/a.jpg");
  EXPECT_EQ(absolute_name("/", "a.jpg"), "/a.jpg");
  EXPECT_EQ(absolute_name("/home/u", "x.tar#k/a.jpg"), "/home/u/x.tar#k/a.jpg");
}

TEST(AbsoluteNameTest, ResolvesOnlyTheFirstParentFolders) {
  EXPECT_EQ(absolute_name("/home/u", "../v/a.jpg"), "/home/v/a.jpg");
  EXPECT_EQ(absolute_name("/home/u", "../../../a.jpg"), "/a.jpg");
  // "link" may lead anywhere, and a member of an archive may have such a name.
  EXPECT_EQ(absolute_name("/home/u", "link/../a.jpg"), "/home/u/link/../a.jpg");
  EXPECT_EQ(absolute_name("/home/u", "x.tar#../a.jpg"), "/home/u/x.tar#../a.jpg");
}

TEST(AbsoluteNameTest, KeepsDotsInNames) {
  EXPECT_EQ(absolute_name("/w", ".hidden/a..b/c./d.jpg"), "/w/.hidden/a..b/c./d.jpg");
  EXPECT_EQ(absolute_name("/w", "..a.jpg"), "/w/..a.jpg");
}

TEST(AbsoluteNameTest, WithoutAWorkingFolderRelativeNamesStay) {
  EXPECT_EQ(absolute_name("", "../a.jpg"), "../a.jpg");
  EXPECT_EQ(absolute_name("", "p/a.jpg"), "p/a.jpg");
}

TEST(ContentKeyTest, IsTheBeginningOfTheSum) {
  io::Digest sum;
  sum.add("some bytes");
  EXPECT_EQ(content_key(sum.hex()), sum.wide_head());
  EXPECT_EQ(content_key(sum.hex()), name_key("some bytes"));
}

TEST(ContentKeyTest, RefusesOtherTexts) {
  const std::string sum = io::Digest().hex();
  for (const std::string& text : {std::string(), sum.substr(1), "g" + sum.substr(1), sum + "0"}) {
    EXPECT_THROW((void)content_key(text), Error) << text;
  }
}

}  // namespace
}  // namespace fovea::collection
