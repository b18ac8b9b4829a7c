// report: one HTML page of what the laboratory measured.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fovea::lab {

struct Report {
  std::string html;
  int documents = 0;                  // that the page shows
  std::vector<std::string> left_out;  // "x.json: it is not JSON": also told on the page
};

/// The page of these files, and of the .json and .jsonl files in these folders and below: results
/// of benches, profiles, gates, comparisons, sanitizers, judgements and the ledgers of evolve. A
/// file that is damaged, or of something else, is left out and named. Of the same measurement the
/// newest is shown; the history shows all. Throws fovea::Error when there is nothing to show, or
/// nothing of this name.
[[nodiscard]] Report make_report(std::span<const std::filesystem::path> inputs);

}  // namespace fovea::lab
