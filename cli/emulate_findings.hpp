// How `fovea emulate` prints findings and writes them to files, of kernels and of programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "lab/emulation/findings_text.hpp"

namespace fovea::cli {

struct FindingOutputs {
  std::string format = "text";
  std::string sarif;

  void add_to(CLI::App& command);
  [[nodiscard]] bool is_gnu() const;
  /// Returns the lines that tell of findings and mismatches.
  [[nodiscard]] std::vector<std::string> lines(const emulation::Outcome& outcome,
                                               const emulation::PtxOrigin& ptx) const;
  /// Writes the file in SARIF, if it is asked for. Throws fovea::Error if it cannot be written.
  void write(std::span<const emulation::Outcome> outcomes, const emulation::PtxOrigin& ptx) const;
};

}  // namespace fovea::cli
