// Finds the earlier results to compare a run with, and prints the changes of times.
#include "cli/time_gate.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::cli {
namespace {

constexpr const char* kNoResults = "none";

std::string percent_text(double change) {
  return fmt::format("{:+.1f}%", 100 * change);
}

void print_change(const lab::TimeChange& change) {
  const std::string times = change.earlier > 0 ? fmt::format("{:.4f} ms to {:.4f} ms",
                                                             change.earlier * 1e3, change.now * 1e3)
                                               : fmt::format("{:.4f} ms", change.now * 1e3);
  std::cout << fmt::format("{:<10} {:<44} {:>24} {:>7}", lab::to_string(change.verdict),
                           io::printable(change.what), times,
                           change.earlier > 0 ? percent_text(change.change) : "");
  if (!change.peer.empty()) {
    std::cout << fmt::format("  {} {}", io::printable(change.peer),
                             percent_text(change.peer_change));
  }
  if (!change.reason.empty()) {
    std::cout << "  " << change.reason;
  }
  if (!change.file.empty()) {
    std::cout << "  (" << io::printable(change.file) << ')';
  }
  std::cout << '\n';
}

}  // namespace

lab::Ceilings measure_gpu_ceilings(gpu::Device& device) {
  std::string cublaslt_version;
  std::vector<std::string> missing_reasons;
  const lab::Ceilings ceilings = lab::measure_ceilings(device, lab::Nvml(device.info().pci_bus_id),
                                                       cublaslt_version, missing_reasons);
  for (const std::string& reason : missing_reasons) {
    say("not measured: " + reason);
  }
  return ceilings;
}

CLI::Option* add_against(CLI::App& command, std::string& against) {
  return add_text(command, "--against", "FILE|FOLDER|none", against,
                  "Earlier results of the same GPU, or a FOLDER whose newest are used: exit with 1 "
                  "when a time is more than 5% longer while that of its peer changed by less than "
                  "2% (default: bench/results in the source tree of this build)")
      ->group(kInputGroup);
}

lab::EarlierFigures load_earlier_figures(const std::string& against, const std::string& gpu) {
  if (against == kNoResults || (against.empty() && gpu.empty())) {
    return {};
  }
  if (gpu.empty()) {
    throw Error("--against needs a GPU: it compares times on GPUs");
  }
  const std::string results_path = against.empty() ? lab::committed_results() : against;
  lab::EarlierFigures figures;
  if (!results_path.empty()) {
    figures = lab::earlier_figures(results_path, gpu);
  }
  if (figures.empty()) {
    const std::string reason =
        results_path.empty()
            ? std::string("no folder bench/results was found")
            : fmt::format("{} has no results for {}", io::printable(results_path), gpu);
    if (!against.empty()) {
      throw Error(reason + ", so there is nothing to compare times with");
    }
    say("times are not compared with earlier ones: " + reason);
  }
  return figures;
}

bool pass_time_gate(std::span<const lab::TimeChange> changes, const std::string& against,
                    bool prints) {
  using lab::TimeVerdict;
  const auto count = [&](TimeVerdict verdict) {
    return std::ranges::count(changes, verdict, &lab::TimeChange::verdict);
  };
  if (prints && !changes.empty()) {
    for (const TimeVerdict verdict : {TimeVerdict::kNotJudged, TimeVerdict::kSlower}) {
      for (const lab::TimeChange& change : changes) {
        if (change.verdict == verdict) {
          print_change(change);
        }
      }
    }
    std::cout << fmt::format(
                     "times compared with earlier results: {} slower, {} not judged, {} steady\n",
                     count(TimeVerdict::kSlower), count(TimeVerdict::kNotJudged),
                     count(TimeVerdict::kSteady))
              << std::flush;
  }
  const bool is_required = !against.empty() && against != kNoResults;
  const bool is_judged = count(TimeVerdict::kSlower) + count(TimeVerdict::kSteady) > 0;
  return count(TimeVerdict::kSlower) == 0 && (is_judged || !is_required);
}

}  // namespace fovea::cli
