// Expressions of whole numbers in launch files: values, roundings, and what is refused.
#include "lab/emulation/expression.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/emulation/launch_file.hpp"

namespace fovea::emulation {
namespace {

const Values kNames = {{"m", 100}, {"n", 7}, {"STAGES", 3}, {"min", 5}};

std::string why(std::string_view text) {
  try {
    return std::to_string(evaluate(text, kNames));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Expression, HasTheValueOfPython) {
  struct Row {
    const char* text;
    std::int64_t value;
  };
  for (const auto& [text, value] : {Row{"42", 42},
                                    {" m + 2*n ", 114},
                                    {"(m + 2) * n", 714},
                                    {"m - n - 1", 92},
                                    {"m / n", 14},
                                    {"m // n * n", 98},
                                    {"-m / n", -15},
                                    {"m / -n", -15},
                                    {"-m % n", 5},
                                    {"m % -n", -5},
                                    {"--m", 100},
                                    {"cdiv(m, n)", 15},
                                    {"cdiv(98, n)", 14},
                                    {"round_up(m, 64)", 128},
                                    {"min(m, max(n, STAGES))", 7},
                                    {"min + 1", 6},
                                    {"9223372036854775807", 9223372036854775807}}) {
    EXPECT_EQ(evaluate(text, kNames), value) << text;
  }
}

TEST(Expression, SaysWhatIsWrong) {
  struct Row {
    const char* text;
    const char* words;
  };
  for (const auto& [text, words] : {Row{"", "lacks a number before its end"},
                                    {"m +", "lacks a number before its end"},
                                    {"(m", "lacks a \")\""},
                                    {"m n", "cannot be read from \"n\" on"},
                                    {"k * 2", "unknown name k; the names are STAGES, m, min, n"},
                                    {"ceil(m, 2)", "unknown function ceil"},
                                    {"min(m)", "lacks a \",\""},
                                    {"m / (n - 7)", "divides by zero"},
                                    {"m % 0", "divides by zero"},
                                    {"9223372036854775807 + 1", "exceeds 64 bits"},
                                    {"9223372036854775807 * 2", "exceeds 64 bits"},
                                    {"(-9223372036854775807 - 1) / -1", "exceeds 64 bits"},
                                    {"9223372036854775808", "not a whole number"},
                                    {"1.5", "cannot be read from \".5\" on"},
                                    {"3m", "not a whole number"}}) {
    EXPECT_NE(why(text).find(words), std::string::npos) << text << ": " << why(text);
  }
  EXPECT_NE(why(std::string(900, '(')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(why(std::string(900, '-') + "1").find("nested too deeply"), std::string::npos);
  EXPECT_NE(why(std::string(2000, '1')).find("at most 1000 characters"), std::string::npos);
}

TEST(LaunchFileProblem, HasNamesForSizesAndNumbers) {
  const char* const text = R"json({
    "problem": {"n": 1000},
    "buffers": {"x": {"type": "f32", "shape": ["n", "2 * n"], "content": "zeros"},
                "y": {"bytes": "n"}},
    "launch": {"grid": ["cdiv(n, 256)"], "block": 256, "shared_bytes": "n % 100 + 16",
               "arguments": [{"s32": "n - 1001"}, {"f32": ["n", "inf"]}, {"buffer": "x", "offset": "n * 4"}]}
  })json";
  const LaunchFile file = parse_launch_file(text, "x", ".");
  EXPECT_EQ(file.buffers[0].shape, Shape({1000, 2000}));
  EXPECT_EQ(file.buffers[1].shape, Shape({1000}));
  const LaunchText& launch = file.launches.front();
  EXPECT_EQ(launch.config.grid[0], 4U);
  EXPECT_EQ(launch.config.dynamic_shared_bytes, 16U);
  EXPECT_EQ(
      get(ElementType::kS32, std::get<std::vector<std::byte>>(launch.arguments[0].what).data()),
      -1);
  EXPECT_EQ(std::get<BufferAddress>(launch.arguments[2].what).offset, 4000U);
  const LaunchFile other = parse_launch_file(text, "x", ".", {.problem = {{"n", 10}}});
  EXPECT_EQ(other.launches.front().config.grid[0], 1U);
}

TEST(LaunchFileProblem, NamesTheFieldOfAMistake) {
  const auto message = [](const std::string& shape, const Values& problem = {}) {
    const std::string text = R"({"problem": {"n": 3}, "buffers": {"x": {"shape": ")" + shape +
                             R"("}}, "launch": {"grid": 1, "block": 1}})";
    try {
      static_cast<void>(parse_launch_file(text, "x", ".", {.problem = problem}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("n"), "");
  EXPECT_NE(message("m").find("buffers.x.shape: the expression \"m\" has the unknown name m"),
            std::string::npos);
  EXPECT_NE(message("n - 4").find("buffers.x.shape: expected a whole number"), std::string::npos);
  EXPECT_NE(message("n", {{"k", 1}}).find("the problem has no field k"), std::string::npos);
}

}  // namespace
}  // namespace fovea::emulation
