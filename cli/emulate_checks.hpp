// Options of `fovea emulate` about what counts as a finding.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "fovea_emulator/device.hpp"

namespace fovea::cli {

struct EmulateChecks {
  std::uint64_t most_findings = 20;
  bool as_hardware = false;
  bool no_races = false;
  std::array<bool, emu::kHardwareCustoms.size()> let_pass{};  // in the order of the customs
  std::vector<std::string> ignored{};
  std::vector<emu::IgnoredFinding> ignored_findings{};  // parsed

  /// Throws CLI::ValidationError for --ignore with a kind that does not exist or ends the run.
  void parse();
  /// Sets the checks of a run.
  void apply(emu::RunOptions& run) const;
  /// Says which --ignore have left out nothing; `counts` has how many findings each has, or less
  /// where the last ones have none.
  void say_unused(const std::vector<std::uint64_t>& counts) const;
};

void add_emulate_checks(CLI::App& command, EmulateChecks& checks);

}  // namespace fovea::cli
