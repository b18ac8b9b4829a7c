// Findings of a run: merges those that are the same, leaves out those that are to be ignored, and
// ends the run when there are enough.
#pragma once

#include <optional>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/finding.hpp"

namespace emu {

/// Exception that ends a run; with the last finding if the run cannot go on behind it.
struct Stop {
  std::optional<Finding> finding{};
};

class FindingLog {
 public:
  FindingLog(const RunOptions& options, Report& report) : options_(options), report_(report) {}

  /// Records a finding behind which the run can go on. Throws Stop when there are as many as the
  /// options allow.
  void add(Finding finding);
  /// Records the finding that has ended the run.
  void add_last(Finding finding);

 private:
  /// Whether the finding is to be left out; counts it for each of those by which it is.
  bool count_ignored(const Finding& finding);
  [[nodiscard]] Finding* find_same(const Finding& finding);

  const RunOptions& options_;
  Report& report_;
};

}  // namespace emu
