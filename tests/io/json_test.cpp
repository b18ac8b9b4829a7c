// JSON within bounds, with its keys in order.
#include "io/json.hpp"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace fovea::io {
namespace {

TEST(OrderedJson, KeepsAnyValueAndTheOrderOfItsKeys) {
  for (const std::string text : {R"({"b":1,"a":[{"d":null,"c":"x"}]})", "[]", "7", "\"x\""}) {
    EXPECT_EQ(parse_ordered_json(text, "x").dump(), text);
    EXPECT_EQ(try_parse_ordered_json(text).dump(), text);
  }
}

TEST(OrderedJson, RefusesWhatParseJsonObjectRefuses) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(try_parse_ordered_json(nested(32)).dump(), nested(32));
  for (const std::string& text : {nested(33), nested(500'000), std::string("{\"a\":1,\"a\":2}"),
                                  std::string("{"), std::string("[1]\0", 4)}) {
    EXPECT_THROW((void)parse_ordered_json(text, "x"), Error) << text.substr(0, 40);
    EXPECT_TRUE(try_parse_ordered_json(text).is_discarded()) << text.substr(0, 40);
  }
}

TEST(OrderedJson, TakesNoTimeThatGrowsWithTheSquareOfItsKeys) {
  std::string text = "{\"0\":0";
  for (int key = 1; key < 300'000; ++key) {
    text += ",\"" + std::to_string(key) + "\":0";
  }
  EXPECT_TRUE(try_parse_ordered_json(text + "}").is_discarded());
  EXPECT_EQ(parse_json_object(text + "}", "x").size(), 300'000U);
}

}  // namespace
}  // namespace fovea::io
