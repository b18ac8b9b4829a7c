// Files and lines of JSON that is nested so deep that to copy it would overflow the stack.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "lab/measure/compare.hpp"
#include "lab/measure/compare_files.hpp"
#include "lab/system/ledger.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kLevels = 500'000;

std::string nested_object(const std::string& before) {
  return before + std::string(kLevels, '[') + std::string(kLevels, ']') + "}";
}

std::string why_refused(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(NestedJson, IsNoLineOfALedger) {
  const TemporaryFile file({});
  std::ofstream(file.path()) << nested_object(R"({"kind":"run","machine":)") << '\n';
  const std::string why = why_refused([&] { const Ledger ledger(file.path(), true); });
  EXPECT_NE(why.find("line 1 is not a line of a ledger"), std::string::npos) << why;
}

TEST(NestedJson, IsNoFileToCompare) {
  const std::string profile = R"({"kind":"profile","figures":{"seconds":1}})";
  const std::string nested = nested_object(R"({"kind":"profile","figures":{"seconds":1},"x":)");
  const std::string why =
      why_refused([&] { (void)compare_texts("a.json", profile, "b.json", nested, 0.01); });
  EXPECT_EQ(why, "b.json is not JSON");
}

TEST(NestedJson, IsNoAnswerOfAProgramToCompare) {
  const TemporaryFile file({});
  std::ofstream(file.path()) << nested_object(R"({"ready":{"machine":)") << "}\n";
  const StepProgram program{"A", {"cat", file.path()}};
  const std::string why = why_refused([&] { (void)compare_steps(program, program, {}); });
  EXPECT_NE(why.find("does not follow the step protocol: got"), std::string::npos) << why;
}

}  // namespace
}  // namespace fovea::lab
