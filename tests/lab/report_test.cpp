// The report: which sections appear, that nothing in a name becomes markup, and what is left out.
#include "lab/report.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMachineJson =
    R"("machine": {"date": "2026-11-2D", "commit": "c0ffee", "gpu": {"name": "GPU <X>", "driver": "9"}})";

std::string on_day(char day, const std::string& rest) {
  std::string machine(kMachineJson);
  machine[machine.find("2D") + 1] = day;
  return "{" + machine + ", " + rest + "}";
}

std::string bench_of(char day, double seconds) {
  return on_day(
      day,
      fmt::format(
          R"("kernels": {{"copy_bytes_per_second": 4e12, "bf16_flops": 8e14, "e4m3_flops": 1.5e15,
  "figures": [{{"card": "gemm_a", "case": "m1", "plan": "", "description": "gemm of a test", "flops": 1e12,
    "bytes": 1e9, "matrix_ceiling": 8e14, "seconds": {}, "spread": 1e-6, "peers": [{{"name": "cuBLASLt & co",
    "seconds": 0.004, "ratio": 2.0, "ambiguous": false, "same_result": true, "wrong": ""}}]}}]}})",
          seconds));
}

const std::string kProfileJson =
    R"("kind": "profile", "version": 1, "card": "attention", "case": "b2", "kernel": "k", "level": "wmma",
  "plan": "", "parameters": {"stages": 4}, "seconds": 5e-6, "figures": {"dram": 0.3},
  "stalls": {"long_scoreboard": 0.6, "barrier": 0.4}, "roles": [{"name": "producer", "share": 0.25,
  "stalls": {"barrier": 0.2}}, {"name": "a.cuh:7 `x < y;`", "share": 0.1, "stalls": {}}], "findings": [{"rule": "r", "seen": {"long_scoreboard": 0.6},
  "means": "Warps wait.", "try": "more stages", "parameter": "stages", "strength": 1}], "places": [])";

std::string gates_of(double reading, bool passed) {
  return fmt::format(
      R"("kind": "gates", "version": 1, "levels": [{{"card": "attention", "case": "b2", "level": "wmma",
  "kernel": "k", "passed": {1}, "gates": [{{"figure": "matrix_units", "sense": "at_least", "limit": 0.4,
  "model": "half of the roof", "reading": {0}, "passed": {1}}}]}}])",
      reading, passed);
}

const std::string kLedgerRun =
    R"({"kind": "run", "version": 1, "card": "attention", "case": "b2", "level": "wmma", )"
    R"("population": "best", "seed": 7, "proposer": ["python3", "mine.py"], "baseline": {"kernel": "k", )"
    "\"parameters\": {\"stages\": 2}, \"seconds\": 1e-5}}\n";

std::string candidate_line(int number, const std::string& rest) {
  return fmt::format(
             R"({{"kind": "candidate", "number": {0}, "generation": {0}, "parents": [{1}],)",
             number, number - 1) +
         rest + "}\n";
}

class ReportPage : public testing::Test {
 protected:
  ReportPage() : folder_(fs::temp_directory_path() / fmt::format("fovea-report-{}", ::getpid())) {
    fs::create_directories(folder_ / "below");
  }
  ~ReportPage() override { fs::remove_all(folder_); }

  void put(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] Report made() const { return make_report(std::vector<fs::path>{folder_}); }
  [[nodiscard]] std::string html() const { return made().html; }

  fs::path folder_;
};

bool page_has(const std::string& html, std::string_view part) {
  return html.find(part) != std::string::npos;
}

/// The ids of the sections, in their order.
std::string sections_of(const std::string& html) {
  constexpr std::string_view kBegin = "<section id=\"";
  std::string ids;
  for (std::size_t at = html.find(kBegin); at != std::string::npos;
       at = html.find(kBegin, at + 1)) {
    const std::size_t from = at + kBegin.size();
    ids += html.substr(from, html.find('"', from) - from) + " ";
  }
  return ids;
}

TEST_F(ReportPage, HasASectionForWhatIsThereAndNoOther) {
  EXPECT_THROW(static_cast<void>(made()), Error);
  put("below/profile.json", on_day('1', kProfileJson));
  EXPECT_EQ(sections_of(html()), "profiles ");
  put("bench.json", bench_of('1', 0.002));
  put("gates.json", on_day('1', gates_of(0.3, false)));
  put("compare.json",
      on_day('1', R"("kind": "compare", "a": {"level": "mma"}, "b": {"level": "wmma"},
      "verdict": "SLOWER", "ratio": 1.021, "interval": [1.019, 1.023], "rounds": 16, "card": "pool",
      "counters": [{"name": "spills", "a": 0, "b": 3, "change": null}, {"name": "l2", "change": 0.5}])"));
  put("verdicts.json",
      on_day('1',
             R"("kind": "verdicts", "card": "pool", "what": "slower sources", "truth": "SLOWER",
      "runs": [{"verdict": "SLOWER"}, {"verdict": "SAME"}, {"verdict": "SLOWER"}])"));
  put("evolve.jsonl", kLedgerRun);
  put("sanitizers.json",
      on_day('1', R"("kind": "sanitizers", "tools": [{"tool": "memcheck", "card": "pool",
      "passed": false, "seconds": 3, "errors": 2, "log": ""}])"));
  put("judge.json",
      on_day('1', R"("kind": "judge", "task": "t.py", "answer": "a.py", "verdict": "WRONG",
      "reasons": ["the last tile is wrong"])"));
  const Report report = made();
  EXPECT_EQ(sections_of(report.html),
            "roofline profiles gates compare evolve history sanitizers verdicts judge ");
  EXPECT_EQ(report.documents, 8);
  EXPECT_TRUE(report.left_out.empty());
  for (const char* part : {"driver 9",
                           "Warps wait.",
                           "more stages",
                           "half of the roof",
                           "missed",
                           "SLOWER",
                           "1.019 to 1.023",
                           "seed 7",
                           "2 errors",
                           "the last tile is wrong",
                           "python3 mine.py proposer",
                           "spills new",
                           "l2 +50.0%",
                           "slower sources",
                           "good\">SLOWER</span> 2",
                           "bad\">SAME</span> 1",
                           "500 TFLOP/s",
                           "2.00x cuBLASLt &amp; co",
                           "<title>",
                           "<desc>",
                           "role=\"img\""}) {
    EXPECT_TRUE(page_has(report.html, part)) << part;
  }
}

TEST_F(ReportPage, NeedsNoNetworkAndNoScript) {
  put("bench.json", bench_of('1', 0.002));
  put("profile.json", on_day('1', kProfileJson));
  const std::string page = html();
  for (const char* part : {"http:", "https:", "<script", "@import", "url(", "<img", "<link"}) {
    EXPECT_FALSE(page_has(page, part)) << part;
  }
  EXPECT_TRUE(page_has(page, "default-src 'none'"));
}

TEST_F(ReportPage, NamesAreEscaped) {
  const std::string evil = R"(<script>\"'&)";
  std::string json = on_day('1', kProfileJson);
  for (const std::string_view name :
       {"\"attention\"", "\"b2\"", "\"k\"", "\"producer\"", "\"Warps wait.\"", "\"more stages\"",
        "\"stages\"", "\"long_scoreboard\"", "\"r\""}) {
    for (std::size_t at = json.find(name); at != std::string::npos; at = json.find(name, at + 2)) {
      json.replace(at, name.size(), "\"" + evil + std::string(name.substr(1, 1)) + "\"");
    }
  }
  put("profile.json", json);
  put("<script>.json", "{}");
  const std::string ledger =
      kLedgerRun +
      candidate_line(1, R"("change": {"<script>": 1}, "valid": false, )"
                        R"("failed_at": "<script>", "why": "<script>", "reason": "<script>")");
  put("evolve.jsonl", ledger);
  const Report report = made();
  EXPECT_EQ(report.documents, 2) << report.left_out.back();
  EXPECT_FALSE(page_has(report.html, "<script"));
  EXPECT_TRUE(page_has(report.html, "&lt;script&gt;"));
  EXPECT_TRUE(page_has(report.html, "GPU &lt;X&gt;"));
}

TEST_F(ReportPage, DamagedAndForeignFilesAreLeftOutAndNamed) {
  put("profile.json", on_day('1', kProfileJson));
  const std::string sound = html();
  put("cut.json", on_day('1', kProfileJson).substr(0, 200));
  put("foreign.json", R"({"name": "package"})");
  put("list.json", "[1]");
  put("other.json", R"({"kind": "recipe"})");
  put("deep.json", "{\"kind\": " + std::string(100, '[') + std::string(100, ']') + "}");
  put("wrong.json", on_day('2', R"("kind": "gates", "levels": [{"card": 1}])"));
  put("negative.json", bench_of('1', -1));
  put("evolve.jsonl", "{\"kind\": \"candidate\"}\n");
  const Report report = made();
  EXPECT_EQ(report.documents, 1);
  EXPECT_EQ(report.left_out.size(), 8U);
  for (const std::string& line : report.left_out) {
    EXPECT_TRUE(page_has(line, folder_.native())) << line;
  }
  EXPECT_EQ(sections_of(report.html), "profiles left-out ");
  for (const char* name : {"cut.json", "foreign.json", "list.json", "other.json", "deep.json",
                           "wrong.json", "negative.json", "evolve.jsonl"}) {
    EXPECT_TRUE(page_has(report.html, name)) << name;
  }
  fs::remove(folder_ / "profile.json");
  EXPECT_THROW(static_cast<void>(made()), Error);
}

TEST_F(ReportPage, TheNewestIsShownAndTheHistoryShowsAll) {
  put("b.json", bench_of('1', 0.002));
  put("a.json", bench_of('2', 0.001));
  put("gates-b.json", on_day('1', gates_of(0.111, false)));
  put("gates-a.json", on_day('2', gates_of(0.555, true)));
  const std::string page = html();
  EXPECT_TRUE(page_has(page, "-50.0%")) << "since the first result, by date and not by name";
  EXPECT_TRUE(page_has(page, "1,000 TFLOP/s"));
  EXPECT_FALSE(page_has(page, "500 TFLOP/s"));
  EXPECT_TRUE(page_has(page, "1 of 1 levels"));
  EXPECT_FALSE(page_has(page, "missed"));
}

TEST_F(ReportPage, ALedgerSaysWhatBecameOfCandidates) {
  const std::string ledger =
      kLedgerRun +
      candidate_line(1,
                     R"("change": {"stages": 3}, "valid": true, "kept": true, "speed_up": 1.05)") +
      candidate_line(
          2,
          R"("change": {"stages": 9}, "valid": false, "failed_at": "resources", "why": "too much")") +
      candidate_line(3, R"("change": {"stages": 4}, "valid": true, "speed_up": 0.8)");
  put("evolve.jsonl",
      ledger + R"({"kind": "candidate", "number": 4, "gener)");  // killed while it wrote
  std::string page = html();
  for (const char* part :
       {"3 candidates, 67% valid", "median 0.925x", "<b>1.050x</b>", "1 at resources",
        "1. stages 3: 1.050x, kept", "2. stages 9: invalid at resources, too much",
        "node faster kept", "node invalid", "node slower", "edge best", "interrupted"}) {
    EXPECT_TRUE(page_has(page, part)) << part;
  }
  put("evolve.jsonl", ledger + R"({"kind": "end", "why": "no more proposals"})" + "\n");
  page = html();
  EXPECT_TRUE(page_has(page, "It ended: no more proposals"));
  EXPECT_FALSE(page_has(page, "interrupted"));
}

}  // namespace
}  // namespace fovea::lab
