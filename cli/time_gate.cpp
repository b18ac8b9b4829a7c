// Which earlier results a run is compared with, and the table of what became slower.
#include "cli/time_gate.hpp"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"

namespace fovea::cli {
namespace {

constexpr const char* kNothing = "none";

std::string percent_of(double change) {
  return fmt::format("{:+.1f}%", 100 * change);
}

void print_change(const lab::TimeChange& one) {
  const std::string times =
      one.earlier > 0 ? fmt::format("{:.4f} ms to {:.4f} ms", one.earlier * 1e3, one.now * 1e3)
                      : fmt::format("{:.4f} ms", one.now * 1e3);
  std::cout << fmt::format("{:<10} {:<44} {:>24} {:>7}", lab::to_string(one.verdict),
                           io::printable(one.what), times,
                           one.earlier > 0 ? percent_of(one.change) : "");
  if (!one.peer.empty()) {
    std::cout << fmt::format("  {} {}", io::printable(one.peer), percent_of(one.peer_change));
  }
  if (!one.reason.empty()) {
    std::cout << "  " << one.reason;
  }
  if (!one.file.empty()) {
    std::cout << "  (" << io::printable(one.file) << ')';
  }
  std::cout << '\n';
}

}  // namespace

CLI::Option* add_against(CLI::App& command, std::string& against) {
  return add_text(
             command, "--against", "FILE|FOLDER|none", against,
             "Earlier results of the same GPU: exit with 1 when a time is more than 5% longer, "
             "while that of its peer moved by less than 2%; of a FOLDER the newest (without "
             "it: bench/results of the sources that this program was built in)")
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
    say("times are compared with no earlier ones: " + why);
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
      for (const lab::TimeChange& one : changes) {
        if (one.verdict == verdict) {
          print_change(one);
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
