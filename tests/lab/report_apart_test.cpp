// The report: what is set apart from the program's own figures, and what was made to go wrong.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/report_page.hpp"

namespace fovea::lab {
namespace {

using test::kProfileJson;
using test::on_day;
using test::page_has;
using test::ReportPage;
using test::sections_of;

// What was made slow on purpose must not be taken for a kernel of the program.
TEST_F(ReportPage, SetsProfilesOfOtherSourcesApart) {
  put("planted.json", on_day('1', kProfileJson));
  std::string own(kProfileJson);
  const std::string sources = R"("sources": "s")";
  own.replace(own.find(sources), sources.size(), R"("sources": "")");
  own.replace(own.find("5e-6"), 4, "7e-6");
  put("own.json", on_day('1', own));
  const std::string page = html();
  const auto others = page.find("<h3>Of other sources");
  ASSERT_NE(others, std::string::npos);
  EXPECT_LT(page.find("<b>7.00 µs</b>"), others);
  EXPECT_GT(page.find("<b>5.00 µs</b>"), others);
  EXPECT_GT(page.find("sources s"), others);
  put("planted.json", on_day('1', own));
  EXPECT_FALSE(page_has(html(), "Of other sources"));
}

TEST_F(ReportPage, ShowsWhatWasMadeToGoWrong) {
  put("hostile.json", on_day('1', R"("kind": "hostile", "misdeeds": [
    {"how": "endless", "exit_code": 0, "passed": true, "invalid": [{"number": 1, "failed_at": "process",
     "why": "did not end within 20 s"}]}, {"how": "hang", "exit_code": null, "passed": false, "invalid": []}])"));
  put("gates.json",
      on_day('1', R"("kind": "gate_planted", "gates": {"what": "sources with it", "card": "gemm_a",
    "before": {"exit_code": 0, "levels": []}, "after": {"exit_code": 1, "levels": [{"kernel": "k <1>", "level": "",
    "passed": false}]}}, "choice": {"what": "slow sources", "card": "attention", "gates": {"exit_code": 1,
    "levels": []}, "before": {"level": "wgmma", "kernel": "a", "notices": []}, "after": {"level": "mma",
    "kernel": "b", "notices": ["it runs at level mma"]}})"));
  const Report report = made();
  EXPECT_TRUE(report.left_out.empty());
  EXPECT_EQ(sections_of(report.html), "trials ");
  for (const char* part : {"process: did not end within 20 s", "bad\">failed", "good\">passed",
                           "k &lt;1&gt;", "it runs at level mma", "slow sources"}) {
    EXPECT_TRUE(page_has(report.html, part)) << part;
  }
  // What is damaged is left out as a whole.
  put("gates.json", on_day('1', R"("kind": "gate_planted", "gates": {"what": "half", "card": "c",
    "before": {"exit_code": 0, "levels": []}})"));
  EXPECT_FALSE(page_has(html(), "the program&#39;s"));
}

TEST_F(ReportPage, SaysWhereASpeedUpIsWithinTheSpread) {
  const auto judged = [](const std::string& answer, double seconds) {
    return fmt::format(R"({{"task": "t", "answer": "{}", "verdict": "RIGHT", "figures":
      {{"speed_up_over_model": {}, "seconds": {}, "spread": 0.25, "model_seconds": 1e-4,
      "model_spread": 0.1}}}})",
                       answer, 1e-4 / seconds, seconds);
  };
  put("judge.json", on_day('1', R"("kind": "judge", "answers": [)" + judged("fast", 5e-5) + ", " +
                                    judged("alike", 8e-5) + "]"));
  const std::string page = html();
  EXPECT_TRUE(page_has(page, "2.00x<small>spread 25%, Model's 10%</small>"));
  EXPECT_TRUE(page_has(page, "1.25x<small>spread 25%, Model's 10%, AMBIGUOUS</small>"));
}

}  // namespace
}  // namespace fovea::lab
