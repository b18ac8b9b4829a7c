// Finds the earlier results to compare a run with, and prints what became slower.
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

constexpr const char* kNothing = "none";

std::string percent_of(double change) {
  return fmt::format("{:+.1f}%", 100 * change);
}

void print_change(const lab::TimeChange& change) {
  const std::string times = change.earlier > 0 ? fmt::format("{:.4f} ms to {:.4f} ms",
                                                             change.earlier * 1e3, change.now * 1e3)
                                               : fmt::format("{:.4f} ms", change.now * 1e3);
  std::cout << fmt::format("{:<10} {:<44} {:>24} {:>7}", lab::to_string(change.verdict),
                           io::printable(change.what), times,
                           change.earlier > 0 ? percent_of(change.change) : "");
  if (!change.peer.empty()) {
    std::cout << fmt::format("  {} {}", io::printable(change.peer), percent_of(change.peer_change));
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

lab::Ceilings ceilings_of(gpu::Device& device) {
  std::string cublaslt_version;
  std::vector<std::string> missing;
  const lab::Ceilings ceilings =
      lab::measure_ceilings(device, lab::Nvml(device.info().pci_bus_id), cublaslt_version, missing);
  for (const std::string& reason : missing) {
    say("not measured: " + reason);
  }
  return ceilings;
}

CLI::Option* add_against(CLI::App& command, std::string& against) {
  return add_text(
             command, "--against", "FILE|FOLDER|none", against,
             "Earlier results of the same GPU: exit with 1 when a time is more than 5% longer, "
             "while that of its peer moved by less than 2%; of a FOLDER the newest (default: "
             "bench/results of the sources that this program was built in)")
      ->group(kInputGroup);
}

lab::EarlierFigures earlier_figures_of(const std::string& against, const std::string& gpu) {
  if (against == kNothing || (against.empty() && gpu.empty())) {
    return {};
  }
  if (gpu.empty()) {
    throw Error("--against compares times of a GPU, and this run has none: leave it out");
  }
  const std::string place = against.empty() ? lab::committed_results() : against;
  lab::EarlierFigures earlier;
  if (!place.empty()) {
    earlier = lab::earlier_figures(place, gpu);
  }
  if (earlier.empty()) {
    const std::string why = place.empty()
                                ? std::string("no folder bench/results was found")
                                : fmt::format("{} has no result of {}", io::printable(place), gpu);
    if (!against.empty()) {
      throw Error(why + ", so there is nothing to compare times with");
    }
    say("times are not compared with earlier ones: " + why);
  }
  return earlier;
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
    std::cout << fmt::format("times beside earlier results: {} slower, {} not judged, {} steady\n",
                             count(TimeVerdict::kSlower), count(TimeVerdict::kNotJudged),
                             count(TimeVerdict::kSteady))
              << std::flush;
  }
  const bool asked = !against.empty() && against != kNothing;
  const bool judged = count(TimeVerdict::kSlower) + count(TimeVerdict::kSteady) > 0;
  return count(TimeVerdict::kSlower) == 0 && (judged || !asked);
}

}  // namespace fovea::cli
