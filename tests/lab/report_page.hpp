// A page of the report, of files that a test puts into a folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lab/report/report.hpp"

namespace fovea::lab::test {

namespace fs = std::filesystem;

inline constexpr std::string_view kMachineJson =
    R"("machine": {"date": "2026-11-2D", "commit": "c0ffee", "gpu": {"name": "GPU <X>", "driver": "9"}})";

inline std::string on_day(char day, const std::string& rest) {
  std::string machine(kMachineJson);
  machine[machine.find("2D") + 1] = day;
  return "{" + machine + ", " + rest + "}";
}

inline const std::string kProfileJson =
    R"("kind": "profile", "version": 1, "card": "attention", "case": "b2", "kernel": "k", "level": "wmma",
  "plan": "p", "sources": "s", "parameters": {"stages": 4}, "seconds": 5e-6, "figures": {"dram": 0.3},
  "stalls": {"long_scoreboard": 0.6, "barrier": 0.4}, "roles": [{"name": "producer", "share": 0.25,
  "stalls": {"barrier": 0.2}}, {"name": "a.cuh:7 `x < y;`", "share": 0.1, "stalls": {}}], "findings": [{"rule": "r", "seen": {"long_scoreboard": 0.6},
  "means": "Warps wait.", "try": "more stages", "parameter": "stages", "strength": 1}], "places": [{"file": "a.cuh",
  "line": 7, "role": "producer", "share": 0.1, "stalls": {"barrier": 0.1}}], "verdict": "It waits.")";

class ReportPage : public testing::Test {
 protected:
  ReportPage() : folder_(fs::temp_directory_path() / fmt::format("fovea-report-{}", ::getpid())) {
    fs::create_directories(folder_ / "below");
  }
  ~ReportPage() override { fs::remove_all(folder_); }

  void put(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
  }
  void put_all(const std::map<std::string, std::string>& texts) const {
    for (const auto& [name, text] : texts) {
      put(name, text);
    }
  }
  [[nodiscard]] Report made() const { return make_report(std::vector<fs::path>{folder_}); }
  [[nodiscard]] std::string html() const { return made().html; }

  fs::path folder_;
};

inline bool page_has(const std::string& html, std::string_view part) {
  return html.find(part) != std::string::npos;
}

/// The ids of the sections, in their order.
inline std::string sections_of(const std::string& html) {
  constexpr std::string_view kBegin = "<section id=\"";
  std::string ids;
  for (std::size_t at = html.find(kBegin); at != std::string::npos;
       at = html.find(kBegin, at + 1)) {
    const std::size_t from = at + kBegin.size();
    ids += html.substr(from, html.find('"', from) - from) + " ";
  }
  return ids;
}

}  // namespace fovea::lab::test
