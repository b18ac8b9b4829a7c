// A bench report's file: sections of others stay, and so does what is no report.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "lab/measure/bench_cards.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

class BenchJson : public testing::Test {
 protected:
  BenchJson() : folder_(fs::temp_directory_path() / fmt::format("fovea-json-{}", ::getpid())) {
    fs::create_directories(folder_);
    report_.device.name = "a GPU";
  }
  ~BenchJson() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "report.json").string(); }
  void put(std::string_view text) const { std::ofstream(path()) << text; }
  [[nodiscard]] std::string held() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  BenchReport report_;
};

TEST_F(BenchJson, ReplacesItsOwnSectionAndKeepsTheOthers) {
  put(R"({"encoder": {"rate": 7}, "kernels": {"old": 1}})");
  EXPECT_NO_THROW(check_json_file(path()));
  const std::string made = to_json(report_, path());
  EXPECT_NE(made.find("\"rate\": 7"), std::string::npos) << made;
  EXPECT_NE(made.find("\"a GPU\""), std::string::npos) << made;
  EXPECT_EQ(made.find("\"old\""), std::string::npos) << made;
}

TEST_F(BenchJson, LeavesAFileAloneThatIsNoReport) {
  for (const std::string_view text : {"{\"encoder\": {\"rate\": 7", "[1, 2]", "a diary"}) {
    put(text);
    EXPECT_THROW(check_json_file(path()), Error) << text;
    EXPECT_THROW((void)to_json(report_, path()), Error) << text;
    EXPECT_EQ(held(), text);
  }
}

// An empty file is what a temporary one is before anything is in it.
TEST_F(BenchJson, TakesAnEmptyFileAndWhatIsNoFile) {
  EXPECT_NO_THROW(check_json_file(path()));
  put("");
  EXPECT_NO_THROW(check_json_file(path()));
  EXPECT_NE(to_json(report_, path()).find("\"a GPU\""), std::string::npos);
  EXPECT_EQ(to_json(report_, "/dev/null"), to_json(report_, ""));
}

}  // namespace
}  // namespace fovea::lab
