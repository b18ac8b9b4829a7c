// The report: which sections appear, that nothing in a name becomes markup, and what is left out.
#include "lab/report/report.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/report_page.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;
using test::kProfileJson;
using test::on_day;
using test::page_has;
using test::ReportPage;
using test::sections_of;

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

std::string gates_of(double reading, bool passed) {
  return fmt::format(
      R"("kind": "gates", "version": 1, "levels": [{{"card": "attention", "case": "b2", "level": "wmma",
  "kernel": "k", "passed": {1}, "gates": [{{"figure": "matrix_units", "sense": "at_least", "limit": 0.4,
  "model": "half of the roof", "reading": {0}, "passed": {1}}}]}}])",
      reading, passed);
}

const std::string kLedgerRun =
    R"({"kind": "run", "machine": {"date": "2026-11-21", "gpu": {"name": "GPU <X>"}}, "card": "attention", "case": "b2", "level": "wmma", )"
    R"("population": "best", "seed": "7", "proposer": ["python3", "mine.py"], "baseline": {"kernel": "k", )"
    "\"parameters\": {\"stages\": 2}, \"seconds\": 1e-5}}\n";

std::string candidate_line(int number, const std::string& rest) {
  return fmt::format(
             R"({{"kind": "candidate", "number": {0}, "generation": {0}, "parents": [{1}],)",
             number, number - 1) +
         rest + "}\n";
}

int count_of(const std::string& html, std::string_view part) {
  int count = 0;
  for (std::size_t at = html.find(part); at != std::string::npos; at = html.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// One of each kind, by the names of their files.
std::map<std::string, std::string> one_of_each() {
  return {
      {"bench.json", bench_of('1', 0.002)},
      {"encoder.json", on_day('1', R"("gpu_bench": [{"engine": "fovea", "precision": "bf16",
      "batch": 32, "images_per_second": 100}])")},
      {"below/profile.json", on_day('1', kProfileJson)},
      {"gates.json", on_day('1', gates_of(0.3, false))},
      {"compare.json",
       on_day('1', R"("kind": "compare", "a": {"level": "mma"}, "b": {"what": "wmma", "level": ""},
      "verdict": "SLOWER", "ratio": 1.021, "interval": [1.019, 1.023], "rounds": "16", "card": "pool",
      "case": "b1024",
      "counters": [{"name": "spills", "a": 0, "b": 3, "change": null}, {"name": "l2", "change": 0.5}])")},
      {"verdicts.json",
       on_day('1',
              R"("kind": "verdicts", "card": "pool", "what": "slower sources", "truth": "SLOWER",
      "runs": [{"verdict": "SLOWER"}, {"verdict": "SAME"}, {"verdict": "SLOWER"}])")},
      {"evolve.jsonl",
       kLedgerRun +
           candidate_line(1, R"("change": {"stages": 3}, "valid": true, "kept": true,)"
                             R"("speed_up": 1.05, "reason": "it waits")") +
           candidate_line(2, R"("change": {"stages": 9}, "valid": false, "why": "too much",)"
                             R"("failed_at": "resources")") +
           "{\"kind\": \"confirmation\", \"number\": 1, \"valid\": true, \"speed_up\": 1.04}\n"
           "{\"kind\": \"end\", \"why\": \"budget\", \"words\": \"it is spent\", \"best\": 1}\n"},
      {"sanitizers.json",
       on_day('1', R"("kind": "sanitizers", "tools": [{"tool": "memcheck", "card": "pool",
      "passed": false, "seconds": 3, "errors": 2, "log": ""}])")},
      {"judge.json", on_day('1', R"("kind": "judge", "task": "t.py", "answer": "a.py",
      "device": "cuda", "verdict": "WRONG", "reasons": ["the last tile is wrong"])")}};
}

TEST_F(ReportPage, HasASectionForWhatIsThereAndNoOther) {
  EXPECT_THROW(static_cast<void>(made()), Error);
  put("below/profile.json", on_day('1', kProfileJson));
  EXPECT_EQ(sections_of(html()), "profiles ");
  put_all(one_of_each());
  const Report report = made();
  EXPECT_EQ(sections_of(report.html),
            "roofline encoder profiles gates compare evolve history sanitizers verdicts judge ");
  EXPECT_EQ(report.documents, 9);
  EXPECT_TRUE(report.left_out.empty());
  for (const char* part : {"driver 9",
                           "Warps wait.",
                           "more stages",
                           "half of the roof",
                           "missed",
                           "SLOWER",
                           "1.019 to 1.023",
                           "seed 7",
                           "level mma",
                           "<td data-of=\"B\">wmma</td>",
                           "<small>b1024, GPU &lt;X&gt;</small>",
                           "<small>GPU &lt;X&gt;, cuda</small>",
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

constexpr std::string_view kMarkup = R"(<script>"'&)";

/// The same with every text that is not empty, and every name that is the file's own, as markup.
nlohmann::json as_markup(const nlohmann::json& json, const std::string& name = {}) {
  if (json.is_string()) {
    const auto text = json.get<std::string>();
    const bool has_code = page_has(text, "`");  // which is shown as such
    return name == "kind" || text.empty()
               ? json
               : nlohmann::json(std::string(kMarkup) + (has_code ? "`<script>`<script>" : ""));
  }
  nlohmann::json changed = json;
  if (json.is_array()) {
    std::ranges::transform(json, changed.begin(), [](const auto& one) { return as_markup(one); });
  } else if (json.is_object()) {
    constexpr std::array kWithNames = {"parameters", "stalls", "seen", "change", "figures"};
    const bool own_names = std::ranges::find(kWithNames, name) != kWithNames.end();
    changed.clear();
    for (const auto& [key, value] : json.items()) {
      changed[own_names ? std::string(kMarkup) + key : key] = as_markup(value, key);
    }
  }
  return changed;
}

TEST_F(ReportPage, NothingInAFileBecomesMarkup) {
  for (const auto& [name, text] : one_of_each()) {
    std::string changed;
    std::istringstream lines(text);
    if (name.ends_with(".jsonl")) {
      for (std::string line; std::getline(lines, line);) {
        changed += as_markup(nlohmann::json::parse(line)).dump() + "\n";
      }
    } else {
      changed = as_markup(nlohmann::json::parse(text)).dump();
    }
    put(name, changed);
  }
  fs::copy(folder_ / "bench.json", folder_ / "again.json");  // a history
  auto other_run = nlohmann::json::parse(kLedgerRun);
  other_run.erase("level");
  put("other.jsonl", as_markup(other_run).dump() + "\n" +
                         candidate_line(1, R"("change": {"<script>": 1}, "valid": true,)"
                                           R"("kept": true, "speed_up": 1.1)"));
  put("<script>.json", "{}");
  put("<script>.jsonl", kLedgerRun + "<script>\n\n<script>\n");
  put("kind.json", R"({"kind": "<script>"})");
  const Report report = made();
  EXPECT_EQ(report.documents, 11);
  EXPECT_EQ(report.left_out.size(), 3U);
  EXPECT_FALSE(page_has(report.html, "<script"));
  EXPECT_FALSE(page_has(report.html, R"("'&)"));
  EXPECT_TRUE(page_has(report.html, "&lt;script&gt;&quot;&#39;&amp;"));
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
  EXPECT_TRUE(page_has(page, "1 of 1 kernels"));
  EXPECT_FALSE(page_has(page, "missed"));
}

TEST_F(ReportPage, AComparisonOfAnotherCaseStandsBesideIt) {
  const std::string first = one_of_each()["compare.json"];
  std::string second = first;
  second.replace(second.find("b1024"), 5, "b2048");
  std::string elsewhere = first;
  elsewhere.replace(elsewhere.find("GPU <X>"), 7, "GPU <Y>");
  put_all({{"1.json", first}, {"2.json", second}, {"3.json", elsewhere}, {"4.json", first}});
  const std::string page = html();
  EXPECT_EQ(count_of(page, "1.021</td>"), 3);
  EXPECT_TRUE(page_has(page, "b2048, GPU &lt;X&gt;"));
  EXPECT_TRUE(page_has(page, "b1024, GPU &lt;Y&gt;"));
}

TEST_F(ReportPage, GatesAreOfAKernel) {
  const auto kernel = [](const std::string& name, bool passed) {
    return fmt::format(R"({{"card": "gemm", "case": "m1", "level": "", "kernel": "{}", "gates": [
      {{"figure": "dram", "sense": "at_least", "limit": 0.5, "reading": 0.4, "passed": {}}}]}})",
                       name, passed);
  };
  const std::string begin = R"("kind": "gates", "levels": [)";
  put("1.json",
      on_day('1', begin + kernel("chosen", false) + ", " + kernel("stands_in", true) + "]"));
  std::string page = html();
  EXPECT_TRUE(page_has(page, "1 of 2 kernels"));
  EXPECT_TRUE(page_has(page, "All 2 gates"));
  EXPECT_EQ(count_of(page, "m1, chosen, "), 2);  // among those that were missed, too
  EXPECT_EQ(count_of(page, "m1, stands_<wbr>in, "), 1);
  put("2.json", on_day('2', begin + kernel("chosen_later", true) + "]"));
  page = html();
  EXPECT_TRUE(page_has(page, "1 of 1 kernels"));
  EXPECT_FALSE(page_has(page, "stands_<wbr>in"));
}

TEST_F(ReportPage, AFigureIsAShareByItsName) {
  std::string json = kProfileJson;
  const std::string figures = R"("figures": {"dram": 0.3)";
  json.replace(json.find(figures), figures.size(),
               figures + R"(, "matrix_units": 1.0, "waves": 0.4, "eligible_warps": 0.6,
               "registers": 96.0, "full_wait": 0.25, "stall_membar": 0.02, "seconds": 5e-6,
               "occupancy_reached": 1.0)");
  put("profile.json", on_day('1', json));
  const std::string page = html();
  for (const auto& [figure, shown] :
       std::map<std::string, std::string>{{"dram", "30%"},
                                          {"matrix units", "100%"},
                                          {"waves", "0.400"},
                                          {"eligible warps", "0.600"},
                                          {"registers", "96"},
                                          {"full wait", "25%"},
                                          {"stall membar", "2.0%"},
                                          {"seconds", "5.00 µs"},
                                          {"occupancy reached", "100%"}}) {
    EXPECT_TRUE(page_has(page, figure + R"(</td><td class="n" data-of="value">)" + shown + "</td>"))
        << figure;
  }
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

TEST_F(ReportPage, ALedgerOfWhatNeverRanCallsNothingValid) {
  put("evolve.jsonl", kLedgerRun + candidate_line(0, R"("valid": null, "kept": true)") +
                          candidate_line(1, R"("valid": false, "failed_at": "compile")"));
  const std::string page = html();
  for (const char* part : {"2 candidates, 0% valid, 1 not judged", "0. the start: not judged, kept",
                           "1 at compile", "node untimed"}) {
    EXPECT_TRUE(page_has(page, part)) << part;
  }
}

const std::string kThreeCandidates =
    kLedgerRun + candidate_line(0, R"("valid": true, "kept": true, "speed_up": 1)") +
    candidate_line(1, R"("change": {"stages": 3}, "valid": true, "kept": true, "speed_up": 1.05,)"
                      R"("cost_seconds": 2)") +
    candidate_line(2, R"("change": {"stages": 4}, "valid": true, "kept": false, "speed_up": 1.2)");

TEST_F(ReportPage, TheBestOfALedgerIsTheOneThatWasKept) {
  put("evolve.jsonl", kThreeCandidates);
  std::string page = html();
  EXPECT_TRUE(page_has(page, "median 1.050x, best <b>1.050x</b> (number 1: stages 3)"));
  EXPECT_TRUE(page_has(page, "the best is number 1."));
  EXPECT_TRUE(page_has(page, "Cost: 2.00 s"));
  const std::string again = R"({"kind": "confirmation", "number": 1, "cost_seconds": 1, "valid": )";
  put("evolve.jsonl", kThreeCandidates + again + "true, \"speed_up\": 1.04}\n" +
                          R"({"kind": "end", "why": "budget", "best": 1})" + "\n");
  page = html();
  EXPECT_TRUE(page_has(page,
                       "best <b>1.040x</b> when number 1 (stages 3) was measured again, "
                       "1.050x before"));
  EXPECT_TRUE(page_has(page, "Cost: 3.00 s"));
  put("evolve.jsonl", kThreeCandidates + again + "false, \"speed_up\": 0}\n" +
                          R"({"kind": "end", "why": "budget", "best": 2})" + "\n");
  EXPECT_TRUE(page_has(html(), "best <b>1.200x</b> (number 2: stages 4)")) << "the run says so";
  put("evolve.jsonl", kThreeCandidates + again + "false, \"speed_up\": 0}\n" +
                          R"({"kind": "end", "why": "interrupted", "best": 0})" + "\n");
  EXPECT_TRUE(page_has(html(), "best <b>1.000x</b> (number 0: the start)")) << "1 has failed";
}

TEST_F(ReportPage, AParentMayBeOfTheSameGeneration) {
  put("evolve.jsonl",
      kLedgerRun +
          R"({"kind": "candidate", "number": 0, "generation": 0, "parents": [], "valid": true})" +
          "\n" +
          R"({"kind": "candidate", "number": 1, "generation": 1, "parents": [0], "valid": true})" +
          "\n" +
          R"({"kind": "candidate", "number": 2, "generation": 1, "parents": [1], "valid": true})" +
          "\n");
  const std::string page = html();
  const std::string edge = R"(<polyline class="edge" points=")";
  const std::size_t root =
      page.find(edge) + edge.size();  // the first line is the first candidate's
  EXPECT_EQ(count_of(page, edge), 3);
  EXPECT_EQ(count_of(page, edge + page.substr(root, page.find(' ', root) - root)), 1);
}

TEST_F(ReportPage, ALedgerThatGoesOnHasNoEnd) {
  put("evolve.jsonl", kThreeCandidates + R"({"kind": "end", "why": "budget", "best": 1})" + "\n" +
                          candidate_line(3, R"("valid": false, "failed_at": "check")"));
  const std::string page = html();
  EXPECT_TRUE(page_has(page, "it was interrupted, or still runs"));
  EXPECT_FALSE(page_has(page, "It ended"));
}

TEST_F(ReportPage, ALedgerMayBeLargeAndItsLastLineBad) {
  std::string ledger = kLedgerRun;
  const std::string source(std::size_t{60} << 10, 'x');
  constexpr int kCandidates = 100;
  for (int i = 0; i < kCandidates; ++i) {
    ledger += candidate_line(i, fmt::format(R"("valid": true, "files": {{"a.cu": "{}"}})", source));
  }
  put("evolve.jsonl", ledger + "{\"kind\": \"candi\n");
  EXPECT_TRUE(page_has(html(), "100 candidates, 100% valid"));
  const std::string run = kLedgerRun;
  put("evolve.jsonl", run + "{\"kind\": \"candi\n" + candidate_line(0, R"("valid": true)"));
  put("long.jsonl", run + "{\"kind\": \"" + std::string(std::size_t{5} << 20, 'x') + "\"}\n");
  put("profile.json", on_day('1', kProfileJson));
  const Report report = made();
  ASSERT_EQ(report.left_out.size(), 2U);
  EXPECT_TRUE(page_has(report.left_out[0], "evolve.jsonl: line 2: not JSON"));
  EXPECT_TRUE(page_has(report.left_out[1], "long.jsonl: line 2 has more than 4194304 bytes"));
}

TEST_F(ReportPage, OfALedgerWithoutTimesNoneAreTold) {
  std::string run = kLedgerRun;
  run.replace(run.find("1e-5"), 4, "null");
  put("evolve.jsonl", run + candidate_line(0, R"("valid": true, "kept": true, "speed_up": null)"));
  const std::string page = html();
  EXPECT_TRUE(page_has(page, "100% valid. Baseline: k, stages 2. Cost"));
  EXPECT_FALSE(page_has(page, "0.00x"));
  EXPECT_FALSE(page_has(page, "the best is"));
}

TEST_F(ReportPage, WhatCannotBeReadIsNamed) {
  put("profile.json", on_day('1', kProfileJson));
  fs::create_symlink("loop.json", folder_ / "loop.json");
  fs::create_symlink("loop", folder_ / "loop");
  fs::create_directory_symlink(folder_, folder_ / "below" / "again");
  fs::create_directory(folder_ / "closed");
  fs::permissions(folder_ / "closed", fs::perms::none);
  const auto error_of = [](const fs::path& input) -> std::string {
    try {
      return make_report(std::vector<fs::path>{input}).left_out.at(0);
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_TRUE(page_has(error_of(folder_ / "none"), "/none: there is no such file or folder"));
  EXPECT_TRUE(page_has(error_of(folder_ / "loop"), "/loop: "));
  EXPECT_TRUE(page_has(error_of(folder_ / std::string(300, 'n')), "nnn: "));
  EXPECT_TRUE(page_has(error_of(folder_ / "closed"),
                       ::geteuid() == 0 ? "no results" : "/closed: this folder cannot be listed"));
  const Report report = made();
  EXPECT_EQ(report.documents, 1);
  ASSERT_FALSE(report.left_out.empty());
  EXPECT_TRUE(page_has(report.left_out.back(), "/loop.json: "));
  fs::permissions(folder_ / "closed", fs::perms::owner_all);
}

TEST_F(ReportPage, AFileOfTwoNamesIsOneResult) {
  put("bench.json", bench_of('1', 0.002));
  fs::create_symlink("bench.json", folder_ / "link.json");
  const std::vector<fs::path> inputs = {folder_, folder_ / "bench.json",
                                        folder_ / "below/../link.json"};
  const Report report = make_report(inputs);
  EXPECT_EQ(report.documents, 1);
  EXPECT_FALSE(page_has(report.html, "over 2 results"));
}

TEST_F(ReportPage, APartThatIsDamagedTakesNoOtherAlong) {
  std::string bench = bench_of('1', 0.002);
  bench.insert(1, R"("encoder": [{"case": "batch nan", "images_per_second": 5}],)"
                  R"("gpu_bench": [{"batch": 8, "images_per_second": 10}],)");
  put("bench.json", bench);
  const Report report = made();
  EXPECT_EQ(sections_of(report.html), "roofline history left-out ");
  ASSERT_EQ(report.left_out.size(), 1U);
  EXPECT_TRUE(page_has(report.left_out[0], "in part: its \"case\" is \"batch nan\""));
}

TEST_F(ReportPage, WhatIsNoShareIsLeftOut) {
  put("sound.json", on_day('1', kProfileJson));
  int number = 0;
  for (const char* stalls : {R"({"math_pipe": 1e308, "wait": 1e308})", R"({"wait": -0.5})",
                             R"({"wait": 7})", R"({"wait": 1e-310})"}) {
    auto json = nlohmann::json::parse(on_day('2', kProfileJson));
    json["stalls"] = nlohmann::json::parse(stalls);
    put(fmt::format("bad{}.json", number++), json.dump());
  }
  const Report report = made();
  EXPECT_EQ(report.left_out.size(), 4U);
  EXPECT_TRUE(page_has(report.html, "which nothing measures"));
  EXPECT_TRUE(page_has(report.html, "and should be a share from 0 to 1"));
  for (const char* part : {"width:nan", "width:-nan", "width:inf", "nan%", "inf%"}) {
    EXPECT_FALSE(page_has(report.html, part)) << part;
  }
}

TEST_F(ReportPage, WhatNothingMeasuresIsLeftOut) {
  put("profile.json", on_day('1', kProfileJson));
  put("fast.json", bench_of('1', 1e-300));
  put("evolve.jsonl",
      kLedgerRun + R"({"kind": "candidate", "number": 1e20, "generation": 1})" + "\n");
  const Report report = made();
  ASSERT_EQ(report.left_out.size(), 2U);
  EXPECT_TRUE(page_has(report.html, "1e+20, and should be a whole number"));
  EXPECT_TRUE(page_has(report.html, "1e-300, which nothing measures"));
}

TEST_F(ReportPage, OfResultsOfOneDayTheLastByNameIsTheNewest) {
  std::string first = bench_of('1', 0.002);
  first.replace(first.find("1e9"), 3, "9e9");  // so that memory bounds it
  std::string second = first;
  second.replace(second.find("4e12"), 4, "5e12");
  second.replace(second.find("c0ffee"), 6, "0badc0");
  second.replace(second.find("\"gemm_a\""), 8, "\"gemm_b\"");
  put("run-1.json", first);
  put("run-2.json", second);
  std::string last =
      on_day('2', R"("kind": "judge", "task": "t", "answer": "a", "verdict": "RIGHT")");
  last.replace(last.find(R"(, "driver": "9")"), 15, "");
  put("judge.json", last);
  const std::string page = html();
  EXPECT_TRUE(page_has(page, "copy 5.00 TB/s"));
  EXPECT_TRUE(page_has(page, "driver 9; newest result of 2026-11-22")) << "who says it last";
}

TEST_F(ReportPage, ProductsAreGroupedByTheirOperands) {
  std::string bench = bench_of('1', 0.002);
  const std::string words = "gemm of a test";
  bench.replace(bench.find(words), words.size(), "gemm (8, 8) = (u8 x i8), K 8, bf16");
  bench.replace(bench.find("\"matrix_ceiling\": 8e14"), 22, "\"matrix_ceiling\": 0");
  put("bench.json", bench);
  EXPECT_TRUE(page_has(html(), "Matrix products of 8 bits on"));
}

}  // namespace
}  // namespace fovea::lab
