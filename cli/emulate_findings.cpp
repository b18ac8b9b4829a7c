// How `fovea emulate` prints findings and writes them to files, of kernels and of programs.
#include "cli/emulate_findings.hpp"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "io/atomic_file.hpp"
#include "lab/emulation/findings_order.hpp"

namespace fovea::cli {
namespace {

constexpr const char* kGnuFormat = "gnu";

}  // namespace

void FindingOutputs::add_to(CLI::App& command) {
  add_choice(command, "--format", {format, kGnuFormat}, format,
             "Form of findings; gnu prints FILE:LINE: error: as compilers do, for editors")
      ->group(kReportGroup);
  add_output_text(command, "--sarif", "FILE", sarif, OutputKind::kSarif,
                  "Write the findings to this file in SARIF 2.1.0, for code hosts and editors")
      ->group(kReportGroup);
}

bool FindingOutputs::is_gnu() const {
  return format == kGnuFormat;
}

std::vector<std::string> FindingOutputs::lines(const emulation::Outcome& outcome,
                                               const emulation::PtxOrigin& ptx) const {
  std::vector<std::string> lines;
  const auto add = [&](const auto& what) {
    if (is_gnu()) {
      std::ranges::move(emulation::compiler_lines(what, ptx), std::back_inserter(lines));
    } else {
      lines.push_back(what.text());
    }
  };
  std::ranges::for_each(emulation::merged_by_line(outcome.report.findings), add);
  std::ranges::for_each(outcome.mismatches, add);
  return lines;
}

void FindingOutputs::write(std::span<const emulation::Outcome> outcomes,
                           const emulation::PtxOrigin& ptx) const {
  if (sarif.empty()) {
    return;
  }
  const auto log = emulation::sarif_log(outcomes, ptx, FOVEA_VERSION);
  io::write_file_atomically(
      sarif, log.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace fovea::cli
