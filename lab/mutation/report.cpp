// The mutation score as a table and as JSON.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lab/mutation/score.hpp"

namespace fovea::mutation {
namespace {

struct Row {
  std::string_view kind;
  int caught = 0;
  int reached = 0;
  int not_reached = 0;
};

std::string_view text_of(Fate fate) {
  constexpr std::array<std::string_view, 3> kNames = {"caught", "survived", "not reached"};
  return kNames.at(static_cast<std::size_t>(fate));
}

void count(Row& row, const MutantResult& result) {
  row.caught += result.fate == Fate::kCaught ? 1 : 0;
  row.reached += result.fate == Fate::kNotReached ? 0 : 1;
  row.not_reached += result.fate == Fate::kNotReached ? 1 : 0;
}

}  // namespace

double share_caught(const std::vector<MutantResult>& results) {
  Row all{};
  for (const MutantResult& result : results) {
    count(all, result);
  }
  return all.reached == 0 ? 1.0 : static_cast<double>(all.caught) / all.reached;
}

std::string table_of(const std::vector<MutantResult>& results) {
  std::vector<Row> rows;
  for (const MutantResult& result : results) {
    if (std::ranges::find(rows, result.mutant.kind, &Row::kind) == rows.end()) {
      rows.push_back({.kind = result.mutant.kind});
    }
  }
  std::ranges::sort(rows, {}, &Row::kind);
  rows.push_back({.kind = "all"});
  for (const MutantResult& result : results) {
    count(*std::ranges::find(rows, result.mutant.kind, &Row::kind), result);
    count(rows.back(), result);
  }
  std::string text =
      fmt::format("{:<44} {:>6} {:>7} {:>11}\n", "", "caught", "reached", "not reached");
  for (const Row& row : rows) {
    fmt::format_to(std::back_inserter(text), "{:<44} {:>6} {:>7} {:>11}\n", row.kind, row.caught,
                   row.reached, row.not_reached);
  }
  return text;
}

std::string to_json(const ScoreOptions& options, const std::vector<MutantResult>& results) {
  auto mutants = nlohmann::ordered_json::array();
  for (const MutantResult& result : results) {
    mutants.push_back({{"kernel", result.mutant.kernel},
                       {"kind", result.mutant.kind},
                       {"line", result.mutant.line},
                       {"source", result.mutant.source},
                       {"change", result.mutant.change},
                       {"fate", text_of(result.fate)},
                       {"schedules", result.schedules},
                       {"case", result.case_name},
                       {"reason", result.reason}});
  }
  return nlohmann::ordered_json{{"arch", options.arch},
                                {"seed", options.seed},
                                {"schedules", options.schedules},
                                {"caught", share_caught(results)},
                                {"mutants", std::move(mutants)}}
      .dump(1);
}

}  // namespace fovea::mutation
